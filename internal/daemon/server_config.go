package daemon

import (
	"fmt"
	"log/slog"
	"math/bits"
	"time"

	"shuffled/pool"
	"shuffled/shuffle"
)

// An Isolation says how far the daemon guards its users' memory from each other.
type Isolation uint8

const (
	// DefaultIsolation lets a region's memory be given back in parts. Whoever holds
	// a region's read-write descriptor can write it: its producer, and root.
	DefaultIsolation Isolation = iota
	// StrictIsolation seals a region against every new writable mapping once its
	// producer has mapped it. The kernel then refuses to take memory out of it, so
	// the region keeps what it ever had until it is dropped as a whole, and the pool
	// counts that as granted to it.
	StrictIsolation
)

// A Config describes a Server. Memory is required; the zero value of every other
// field is a usable default.
type Config struct {
	// Memory is how many bytes of segments the daemon may hand out.
	Memory int64
	// SegmentSize is the size of a segment, a power of two of at least 4 KiB; 32
	// KiB by default.
	SegmentSize int
	// FloatingTarget is how many bytes a bounded partition should be able to have
	// in flight beside the share of its channels; 0 stands for
	// pool.DefaultFloatingBytes.
	FloatingTarget int
	Isolation      Isolation
	HugePages      HugePages

	// AllowedUIDs and AllowedGIDs may connect, beside root and the daemon's own
	// user.
	AllowedUIDs, AllowedGIDs []uint32
	Limits                   Limits
	// Retention is how long a finished partition is kept while nobody reads it;
	// 10 minutes by default.
	Retention time.Duration
	// AdmissionTimeout is how long the creation of a partition waits for the segments
	// that it requires to come back from others; 5 seconds by default. If it is negative,
	// a partition for which they are not there is refused at once.
	AdmissionTimeout time.Duration
	// HelloTimeout is how long a new connection may take to say Hello; 30 seconds
	// by default.
	HelloTimeout time.Duration

	// Instance names the daemon over its restarts, such as by its socket: what the
	// workers of an earlier one of the same instance still hold of its memory is
	// taken off what may be lent. "" looks for none.
	Instance string
	// Version is shown to clients and operators.
	Version string
	// Logger gets what an operator should know; none by default.
	Logger *slog.Logger
	// OnAttach, if set, is called with the time from when both a consumer had
	// asked and its producer was there until the messages that tell both of each
	// other were made, each when its client had taken what was before it. It is not
	// called if one of them goes before. It must not block.
	OnAttach func(latency time.Duration)
	// Now is the clock of time-outs and retention; time.Now by default.
	Now func() time.Time
	// FirstOrdinal is where the cursors of every partition start. Tests start them
	// just below the wrap.
	FirstOrdinal uint64
}

// DefaultAdmissionTimeout is how long creations of partitions wait for memory by
// default.
const DefaultAdmissionTimeout = 5 * time.Second

// pageSize is the unit in which memory is committed and given back.
const pageSize = 4096

const minSegmentSize = pageSize

// withDefaults fills in what is zero.
func (c Config) withDefaults() Config {
	if c.SegmentSize == 0 {
		c.SegmentSize = pool.DefaultSegmentSize
	}
	if c.AdmissionTimeout == 0 {
		c.AdmissionTimeout = DefaultAdmissionTimeout
	}
	if c.HelloTimeout == 0 {
		c.HelloTimeout = 30 * time.Second
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.OnAttach == nil {
		c.OnAttach = func(time.Duration) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Limits = c.Limits.withDefaults(c.Memory)
	return c
}

// validate returns shuffle.ErrInvalidArgument with the field, its value and its
// range. Defaults are filled in.
func (c *Config) validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("server config: "+format+": %w", append(args, shuffle.ErrInvalidArgument)...)
	}
	const maxSegmentSize = 1 << 26
	switch {
	case c.SegmentSize < minSegmentSize || c.SegmentSize > maxSegmentSize || bits.OnesCount(uint(c.SegmentSize)) != 1:
		return invalid("SegmentSize is %d, want a power of two from %d to %d", c.SegmentSize, minSegmentSize,
			maxSegmentSize)
	case c.Memory < int64(c.SegmentSize):
		return invalid("Memory is %d bytes, want at least a segment of %d", c.Memory, c.SegmentSize)
	case c.Memory/int64(c.SegmentSize) > maxSegments:
		return invalid("Memory is %d bytes, want at most %d segments of %d", c.Memory, maxSegments, c.SegmentSize)
	case c.FloatingTarget < 0:
		return invalid("FloatingTarget is %d, want 0 or more", c.FloatingTarget)
	case c.Isolation > StrictIsolation:
		return invalid("Isolation is %d, want 0 (default) or 1 (strict)", c.Isolation)
	case c.HugePages > NeverHugePages:
		return invalid("HugePages is %d, want 0 (auto) or 1 (never)", c.HugePages)
	case c.Retention < 0:
		return invalid("Retention is %v, want 0 or more", c.Retention)
	case c.HelloTimeout < 0:
		return invalid("HelloTimeout is %v, want 0 or more", c.HelloTimeout)
	}
	return c.Limits.validate()
}

// maxSegments is how many segments a region can have.
const maxSegments = 1 << 22
