package pool

import (
	"fmt"
	"math"
	"sync"

	"shuffled/internal/invariants"
)

// NoChannel as a channel charges a segment to no channel. It is for segments that
// are not for one subpartition, such as broadcast ones, which all of them share:
// charging those to one channel would hold against it what is not its own.
const NoChannel = -1

// A Source is where a LocalBufferPool gets its segments from and gives them back
// to. Its methods are called with no lock of the pool held, from every goroutine
// that calls the pool, and must not block.
type Source interface {
	// Attach is called once, before any other method, with the pool that
	// deliveries go to.
	Attach(p *LocalBufferPool)
	// Request asks for n more segments. It returns those that are there at once,
	// which must be valid numbers; the rest, up to all of them, is delivered later
	// with [LocalBufferPool.Granted]. A source that has its numbers from another
	// process delivers all of them that way, since Granted checks them.
	Request(n int) []int
	// Recycle gives segments back. It does not keep the slice.
	Recycle(segments []int)
	// Destroy is called once, by LazyDestroy. Recycle is called afterwards too, and
	// a Request that was under way may still come, which is to return nothing.
	Destroy()
}

// A LocalConfig describes a LocalBufferPool; counts are in segments.
type LocalConfig struct {
	// Required is the smallest size of the pool; at least 1.
	Required int
	// Max is the largest size of the pool and the number of segments of its region,
	// whose numbers run from 0 to Max-1; at least Required. With Unlimited the pool
	// takes any number below 2^31, which is fit for a source that is trusted.
	Max int
	// Subpartitions is the number of channels; 0 for a pool without channels.
	Subpartitions int
	// MaxBuffersPerChannel makes the pool unavailable while a channel has that many
	// segments or more; 0 for no such quota.
	MaxBuffersPerChannel int
	// RequestBatch is how many segments at most the pool tries to have in stock as
	// long as it may grow, counting those it has asked for: as many as are in use, or
	// required. It asks for more when there are less than half as many. 0 stands for 1: one free
	// segment, fetched ahead, as in Flink. More saves messages to a source in another
	// process. A pool that nobody has taken from yet, or not for a while, has none.
	RequestBatch int
}

func (c LocalConfig) validate() error {
	if err := (GrantSpec{Required: c.Required, Max: c.Max}).validate(); err != nil {
		return err
	}
	for _, field := range []struct {
		name  string
		value int
	}{
		{"subpartitions", c.Subpartitions},
		{"max buffers per channel", c.MaxBuffersPerChannel},
		{"request batch", c.RequestBatch},
	} {
		if field.value < 0 {
			return fmt.Errorf("%s is %d, want 0 or more: %w", field.name, field.value, ErrInvalidArgument)
		}
	}
	return nil
}

// A LocalBufferPool is the free list of one partition, in the heap of its
// producer. It holds up to Size segments, free ones and those that were handed
// out, and draws them from its source one step ahead of need. Free segments are
// reused first in, first out.
//
// The pool is available if it has a free segment and no channel is at its quota.
// A producer asks for that before it begins a record, and once it has begun takes
// what is free: a quota never refuses a request.
//
// All methods may be called from any number of goroutines. TryRequest and Recycle
// are made for one goroutine that calls them for every buffer, while Granted and
// SetNumBuffers come from another: they take one lock and do not allocate once
// the pool has reached its size. If several goroutines request, one of them may be
// refused although the source has segments, since another is just fetching them;
// FreeSegment tells when it is worth trying again.
//
// After LazyDestroy requests return ErrDestroyed, and every segment that is
// recycled or granted goes to the source.
//
// The behaviour is that of Flink's LocalBufferPool without listeners and
// overdraft.
type LocalBufferPool struct {
	config LocalConfig
	source Source

	mu         sync.Mutex
	segments   []segmentState // by number, as far as numbers have been seen
	free       segmentRing
	size       int
	requested  int   // segments that the pool has, free ones and handed-out ones
	pending    int   // segments asked for and not delivered
	perChannel []int // segments handed out to each channel; nil without a quota
	atQuota    int   // channels with MaxBuffersPerChannel segments or more
	drawing    bool  // segments are wanted: the pool keeps some in stock
	destroyed  bool
	use        poolUse
	recycled   invariants.Releases // of segments

	available   signal
	freeSegment signal
}

// segmentState is where a segment is, as the pool knows it.
type segmentState uint8

const (
	segmentAbsent segmentState = iota // at the source
	segmentFree
	segmentHandedOut
)

// NewLocalBufferPool returns a pool of size config.Required, which fetches its first
// segments when one is wanted. It returns ErrInvalidArgument if the config is outside
// its range or there is no source.
func NewLocalBufferPool(config LocalConfig, source Source) (*LocalBufferPool, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("local buffer pool: %w", err)
	}
	if source == nil {
		return nil, fmt.Errorf("local buffer pool: no source: %w", ErrInvalidArgument)
	}
	config.RequestBatch = max(1, config.RequestBatch)
	p := &LocalBufferPool{config: config, source: source, size: config.Required}
	if config.MaxBuffersPerChannel > 0 {
		p.perChannel = make([]int, config.Subpartitions)
	}
	source.Attach(p)
	return p, nil
}

// TryRequest takes the segment that has been free for longest and charges it to
// the channel, or to none with NoChannel. It does not block: ok is false if no
// segment is free. The error is ErrDestroyed after LazyDestroy and
// ErrInvalidArgument for a channel that does not exist.
func (p *LocalBufferPool) TryRequest(channel int) (segment int, ok bool, err error) {
	p.mu.Lock()
	if p.destroyed {
		p.mu.Unlock()
		return 0, false, fmt.Errorf("request segment: %w", ErrDestroyed)
	}
	if channel < NoChannel || channel >= p.config.Subpartitions {
		p.mu.Unlock()
		return 0, false, fmt.Errorf("request segment: channel is %d, want %d (none) to %d: %w",
			channel, NoChannel, p.config.Subpartitions-1, ErrInvalidArgument)
	}
	for {
		segment, ok = p.handOut(channel)
		p.drawing = true
		p.use.wanted()
		wanted := p.wanted()
		p.mu.Unlock()
		if came := p.fetch(wanted); ok || !came {
			return segment, ok, nil
		}
		p.mu.Lock()
	}
}

// Recycle takes a segment back that TryRequest has handed out for the same
// channel. The segment is free again, or goes to the source if the pool holds more
// than its size or is destroyed.
//
// It panics if the segment is not handed out or the channel has none. So callers
// must check what they have from another process before.
func (p *LocalBufferPool) Recycle(segment, channel int) {
	p.mu.Lock()
	if segment < 0 || segment >= len(p.segments) || p.segments[segment] != segmentHandedOut {
		p.mu.Unlock()
		panic(fmt.Sprintf("pool: recycled segment %d is not handed out%s", segment, p.recycled.First(segment)))
	}
	if channel < NoChannel || channel >= p.config.Subpartitions ||
		(p.perChannel != nil && channel != NoChannel && p.perChannel[channel] == 0) {
		p.mu.Unlock()
		panic(fmt.Sprintf("pool: segment %d recycled for channel %d, which has none", segment, channel))
	}
	if p.perChannel != nil && channel != NoChannel {
		if p.perChannel[channel] == p.config.MaxBuffersPerChannel {
			p.atQuota--
		}
		p.perChannel[channel]--
	}
	p.segments[segment] = segmentFree
	p.recycled.Remember(segment)
	p.free.push(segment)
	excess := p.takeExcess()
	wake := p.wakeUps()
	p.mu.Unlock()
	wake.run()
	p.giveBack(excess)
}

// Granted delivers segments that the pool has asked its source for. It returns
// ErrUnknownSegment, and takes none of them, if one is out of range or in the pool
// already, or if they are more than the pool has asked for.
func (p *LocalBufferPool) Granted(segments []int) error {
	p.mu.Lock()
	if err := p.admit(segments); err != nil {
		p.mu.Unlock()
		return fmt.Errorf("granted segments: %w", err)
	}
	excess := p.takeExcess()
	wake := p.wakeUps()
	p.mu.Unlock()
	wake.run()
	p.giveBack(excess)
	return nil
}

// SetNumBuffers changes the size of the pool to n, or to its maximum if that is
// less. Free segments in excess go to the source at once, handed-out ones when
// they are recycled. It returns ErrInvalidArgument, and changes nothing, if n is
// less than the pool requires.
func (p *LocalBufferPool) SetNumBuffers(n int) error {
	if n < p.config.Required {
		return fmt.Errorf("set size of local buffer pool: %d segments, want at least the required %d: %w", n,
			p.config.Required, ErrInvalidArgument)
	}
	p.mu.Lock()
	p.size = min(n, p.config.Max)
	excess := p.takeExcess()
	wanted := p.wanted()
	p.mu.Unlock()
	p.giveBack(excess)
	p.fetch(wanted)
	return nil
}

// LazyDestroy gives the free segments and the promise back to the source and wakes
// everybody who waits. Handed-out segments are still to be recycled. It may be
// called more than once.
func (p *LocalBufferPool) LazyDestroy() {
	p.mu.Lock()
	if p.destroyed {
		p.mu.Unlock()
		return
	}
	p.destroyed = true
	excess := p.takeExcess()
	wake := p.wakeUps()
	p.mu.Unlock()
	wake.run()
	p.giveBack(excess)
	p.source.Destroy()
}

// Available reports whether the pool has a free segment and no channel is at its
// quota. It is true after LazyDestroy, as requests need not wait to fail. Who asks
// wants a segment: a pool that has none in stock fetches some.
func (p *LocalBufferPool) Available() bool {
	p.draw()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.isAvailable()
}

// Availability returns a channel that is closed once the pool is available, which
// is for waiting before a record. Who wakes up must look again: the pool can have
// become unavailable, or have been destroyed. As with Available, the pool fetches
// segments.
func (p *LocalBufferPool) Availability() <-chan struct{} {
	p.draw()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.available.wait(p.isAvailable())
}

// FreeSegment returns a channel that is closed once a segment is free, whatever
// the quotas, which is for waiting in the middle of a record. Who wakes up must
// look again, as with Availability. As with Available, the pool fetches segments.
func (p *LocalBufferPool) FreeSegment() <-chan struct{} {
	p.draw()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.freeSegment.wait(p.hasFreeSegment())
}

// Size returns the number of segments that the pool may have at present.
func (p *LocalBufferPool) Size() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.size
}

// Free returns the number of segments that can be requested without the source.
func (p *LocalBufferPool) Free() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.free.len()
}

// Requested returns the number of segments that the pool has from its source,
// free ones and handed-out ones. It exceeds Size only after the pool was shrunk.
func (p *LocalBufferPool) Requested() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requested
}

// Used returns the number of segments that are handed out.
func (p *LocalBufferPool) Used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requested - p.free.len()
}

// The functions from here to fetch are called with the lock held.

func (p *LocalBufferPool) isAvailable() bool {
	return p.destroyed || p.free.len() > 0 && p.atQuota == 0
}

func (p *LocalBufferPool) hasFreeSegment() bool {
	return p.destroyed || p.free.len() > 0
}

func (p *LocalBufferPool) wakeUps() wakeUps {
	return wakeUps{p.available.fire(p.isAvailable()), p.freeSegment.fire(p.hasFreeSegment())}
}

// batch is how many segments the pool tries to have in stock.
func (p *LocalBufferPool) batch() int {
	return min(max(p.config.Required, p.requested-p.free.len()), p.config.RequestBatch)
}

// handOut takes a segment out of the free ones and charges it to the channel.
func (p *LocalBufferPool) handOut(channel int) (segment int, ok bool) {
	if segment, ok = p.free.pop(); !ok {
		return 0, false
	}
	p.use.handedOut(p.free.len())
	p.segments[segment] = segmentHandedOut
	if p.perChannel != nil && channel != NoChannel {
		p.perChannel[channel]++
		if p.perChannel[channel] == p.config.MaxBuffersPerChannel {
			p.atQuota++
		}
	}
	return segment, true
}

// wanted returns how many segments to ask the source for, and counts them as
// pending.
func (p *LocalBufferPool) wanted() int {
	stock, batch := p.free.len()+p.pending, p.batch()
	if p.destroyed || !p.drawing || 2*stock >= batch {
		return 0
	}
	n := max(0, min(batch-stock, p.size-p.requested-p.pending))
	p.pending += n
	return n
}

// admit adds segments that the source has delivered to the free ones: all of them,
// or none if there is an error.
func (p *LocalBufferPool) admit(segments []int) error {
	if len(segments) > p.pending {
		return fmt.Errorf("%d segments, but only %d were asked for: %w", len(segments), p.pending, ErrUnknownSegment)
	}
	limit := min(p.config.Max, math.MaxInt32)
	for i, segment := range segments {
		if segment < 0 || segment >= limit || (segment < len(p.segments) && p.segments[segment] != segmentAbsent) {
			for _, admitted := range segments[:i] {
				p.segments[admitted] = segmentAbsent
			}
			return fmt.Errorf("segment %d is out of range or in the pool already, want one of %d: %w", segment, limit,
				ErrUnknownSegment)
		}
		if segment >= len(p.segments) {
			p.segments = append(p.segments, make([]segmentState, segment+1-len(p.segments))...)
		}
		p.segments[segment] = segmentFree
	}
	p.pending -= len(segments)
	p.requested += len(segments)
	p.free.reserve(p.requested)
	for _, segment := range segments {
		p.free.push(segment)
	}
	return nil
}

// takeExcess takes the free segments out of the pool that it should not have.
func (p *LocalBufferPool) takeExcess() []int {
	size := p.size
	if p.destroyed {
		size = 0
	}
	return p.takeOut(min(p.requested-size, p.free.len()))
}

// takeOut takes n of the free segments out of the pool, those that were free for
// longest.
func (p *LocalBufferPool) takeOut(n int) []int {
	if n <= 0 {
		return nil
	}
	excess := make([]int, n)
	for i := range excess {
		excess[i], _ = p.free.pop()
		p.segments[excess[i]] = segmentAbsent
	}
	p.requested -= n
	return excess
}

// fetch asks the source for n segments, which wanted has counted as pending, and
// reports whether there were any at once. It is called without the lock, as are draw
// and giveBack.
func (p *LocalBufferPool) fetch(n int) bool {
	if n == 0 {
		return false
	}
	segments := p.source.Request(n)
	if len(segments) == 0 {
		return false
	}
	if err := p.Granted(segments); err != nil {
		panic(fmt.Sprintf("pool: source broke its contract: %v", err))
	}
	return true
}

// draw makes the pool keep some segments in stock.
func (p *LocalBufferPool) draw() {
	p.mu.Lock()
	wanted := 0
	if !p.drawing && !p.destroyed {
		p.drawing = true
		p.use.wanted()
		wanted = p.wanted()
	}
	p.mu.Unlock()
	p.fetch(wanted)
}

func (p *LocalBufferPool) giveBack(segments []int) {
	if len(segments) > 0 {
		p.source.Recycle(segments)
	}
}
