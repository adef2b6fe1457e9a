// Package linktest connects a ResultPartition and an InputGate inside one
// process without a daemon, over heap memory, where the race detector sees every
// access, or over mappings of real shared memory, where each party has mappings
// of its own and unmaps them when it ends, as processes do.
package linktest

import (
	"context"
	"sync"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/gate"
	"shuffled/internal/partition"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// NearWrap is where the cursors of every link start: an overflow shows at once.
const NearWrap = ^uint64(0) - 4

// TB is what a link needs of a test, benchmark or example.
type TB interface {
	Helper()
	Cleanup(func())
	Errorf(format string, args ...any)
	FailNow()
}

// Config is the geometry of a link.
type Config struct {
	Memory        Memory
	Type          shuffle.ResultPartitionType // 0: PipelinedBounded
	Subpartitions int
	Segments      int // of the pool, and its maximum
	Required      int // 0: Subpartitions+1
	SegmentSize   int
	Quota         int // MaxBuffersPerChannel
	OnLost        shuffle.ConsumerLostPolicy
	FirstOrdinal  uint64 // 0: NearWrap
}

// A Link is a partition with its memory. Gates are attached with Gate or
// Gate.Attach, bare views with Consumer. Whatever is still open at the end of
// the test is closed then, and mappings that stay are an error of the test.
type Link struct {
	Partition *partition.ResultPartition
	Pool      *pool.LocalBufferPool
	Network   *pool.NetworkBufferPool
	Layout    memseg.PartitionLayout
	Host      *Host

	t        TB
	objects  *objects
	region   object
	doorbell object
	mapped   *memseg.Region // the partition's own
}

// A Host records what the partition tells its host, and unmaps the partition
// when it is closed.
type Host struct {
	mu                         sync.Mutex
	Finished, Released, Closed int // calls
	Cause                      string
	// Answer is what the partition is told when it finishes, nil for yes.
	Answer func(ctx context.Context) error

	unmap []func()
}

// FinishPartition records the call and answers it.
func (h *Host) FinishPartition(ctx context.Context) error {
	_ = h.record(func() { h.Finished++ })
	if h.Answer != nil {
		return h.Answer(ctx)
	}
	return nil
}

// FailPartition records the call.
func (h *Host) FailPartition(_ context.Context, cause string) error {
	return h.record(func() { h.Cause = cause })
}

// ReleasePartition records the call.
func (h *Host) ReleasePartition(context.Context) error { return h.record(func() { h.Released++ }) }

// ClosePartition records the call and unmaps the producer's memory.
func (h *Host) ClosePartition() error {
	return h.record(func() {
		h.Closed++
		for _, unmap := range h.unmap {
			unmap()
		}
	})
}

func (h *Host) record(f func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f()
	return nil
}

// New returns a link whose memory is unmapped at the end of the test.
func New(t TB, config Config) *Link {
	t.Helper()
	if config.Required == 0 {
		config.Required = min(config.Subpartitions+1, config.Segments)
	}
	if config.Type == 0 {
		config.Type = shuffle.PipelinedBounded
	}
	if config.FirstOrdinal == 0 {
		config.FirstOrdinal = NearWrap
	}
	id := shuffle.NewPartitionID()
	l, err := memseg.NewPartitionLayout(uint32(config.Type), id, 1, config.Subpartitions, config.Segments,
		config.SegmentSize)
	require.NoError(t, err)
	l.FirstOrdinal = config.FirstOrdinal
	network, err := pool.NewNetworkBufferPool(config.Segments, config.SegmentSize)
	require.NoError(t, err)
	segments, err := network.CreateLocalPool(pool.LocalConfig{
		Required: config.Required, Max: config.Segments, Subpartitions: config.Subpartitions,
		MaxBuffersPerChannel: config.Quota,
	})
	require.NoError(t, err)
	link := &Link{Pool: segments, Network: network, Layout: l, Host: &Host{}, t: t,
		objects: newObjects(t, config.Memory)}
	link.region = link.objects.create("partition", l.RegionSize())
	link.doorbell = link.objects.create("doorbell", memseg.DoorbellSize(config.Subpartitions))
	region, unmapRegion := link.objects.use(link.region, memseg.ReadWrite)
	doorbell, unmapDoorbell := link.objects.use(link.doorbell, memseg.ReadWrite)
	link.Host.unmap = []func(){unmapRegion, unmapDoorbell}
	link.mapped = region
	copy(region.Bytes(), l.EncodeHeader()) // as the daemon does
	spec := shuffle.PartitionSpec{ID: id, Type: config.Type, Subpartitions: config.Subpartitions,
		OnConsumerLost: config.OnLost, MaxBuffersPerChannel: config.Quota}
	link.Partition, err = partition.NewResultPartition(spec, region, l, doorbell, segments, link.Host)
	require.NoError(t, err)
	atEnd(t).close(func() { _ = link.Partition.Close() }) // the test may have closed it
	return link
}

// Gate returns a gate over the given subpartitions of the link, attached.
func (l *Link) Gate(subpartitions ...int) *gate.InputGate {
	l.t.Helper()
	g := NewGate(l.t, l.objects.memory, len(subpartitions))
	for channel, sub := range subpartitions {
		g.Attach(channel, l, sub)
	}
	return g.InputGate
}

// View returns the consumer's end of a subpartition, attached, without a gate.
func (l *Link) View(sub int) *partition.SubpartitionView { return l.Consumer(sub).SubpartitionView }

// A Consumer is the consumer's end of one subpartition without a gate.
type Consumer struct {
	*partition.SubpartitionView
	// Words are those that the consumer writes, for a consumer that misbehaves.
	Words memseg.ChannelWords

	t        TB
	bell     *memseg.Doorbell
	attached uint32
}

// Consumer returns the consumer's end of a subpartition, attached.
func (l *Link) Consumer(sub int) *Consumer {
	l.t.Helper()
	g := NewGate(l.t, l.objects.memory, 1)
	c := &Consumer{Words: g.Words(0), t: l.t, bell: g.bell}
	c.SubpartitionView = g.view(l, sub, 0)
	atEnd(l.t).close(func() { c.Close(false) })
	require.NoError(l.t, l.connect(g, 0, sub))
	c.attached = g.bell.Rings()
	return c
}

// Rings returns how often the producer has rung since it knows the consumer,
// which is a ring that does not count.
func (c *Consumer) Rings() int { return int(c.bell.Rings() - c.attached) }

// TryAttach tells the producer of a consumer of a subpartition that never reads.
func (l *Link) TryAttach(sub int) error {
	l.t.Helper()
	return l.connect(NewGate(l.t, l.objects.memory, 1), 0, sub)
}

// Park sleeps until the producer has rung more often than rings, or for a while.
func (c *Consumer) Park(ctx context.Context, rings int) {
	c.bell.Collect(1, func(int) {}) // its ring counts too
	if err := c.bell.Park(ctx, c.attached+uint32(rings), c.Words.Parked, memseg.MaxParkTime); err != nil {
		c.t.Errorf("park: %v", err)
	}
}

// connect tells the producer of its consumer.
func (l *Link) connect(g *Gate, channel, sub int) error {
	l.t.Helper()
	words, unmapWords := g.objects.use(g.region, memseg.ReadOnly)
	bell, unmapBell := g.objects.use(g.doorbell, memseg.ReadWrite)
	link, err := partition.NewConsumerLink(words, g.layout, bell, channel, func() { unmapWords(); unmapBell() })
	require.NoError(l.t, err)
	if err = l.Partition.AttachConsumer(sub, link); err != nil {
		link.Close()
	}
	return err
}

// IsParked reports whether the writer sleeps until a consumer has released
// something.
func (l *Link) IsParked() bool { return memseg.NewPartitionWords(l.Region()).Parked.Load() != 0 }

// Rings returns the futex word of the writer's doorbell, which counts.
func (l *Link) Rings() uint32 {
	bell, err := memseg.NewDoorbell(l.objects.pin(l.doorbell), l.Layout.Subpartitions)
	require.NoError(l.t, err)
	return bell.Rings()
}

// Ring rings the writer's doorbell for a subpartition, as its consumer does.
func (l *Link) Ring(subpartition int) {
	bell, err := memseg.NewDoorbell(l.objects.pin(l.doorbell), l.Layout.Subpartitions)
	require.NoError(l.t, err)
	bell.Ring(subpartition, memseg.NewPartitionWords(l.Region()).Parked)
}

// IsRung reports whether the writer's doorbell says that a subpartition may have news.
func (l *Link) IsRung(subpartition int) bool {
	const firstBits = 128 // docs/layout.md
	return l.objects.pin(l.doorbell).Word(firstBits+subpartition/64*8).Load()>>(subpartition%64)&1 != 0
}

// LoseMemory makes every access of the partition to its region a fault. The link is
// one of Mapped memory.
func (l *Link) LoseMemory() {
	l.t.Helper()
	require.NoError(l.t, unix.Mprotect(l.mapped.Bytes(), unix.PROT_NONE))
}

// Region returns the partition's memory, for a producer that misbehaves. It
// stays usable until the end of the test.
func (l *Link) Region() *memseg.Region { return l.objects.pin(l.region) }

// ReadPublished returns the descriptors of a subpartition from the beginning, as
// far as they were published. Older ones than the queue's capacity are gone.
func (l *Link) ReadPublished(sub int) []memseg.Descriptor {
	l.t.Helper()
	q := memseg.NewQueueReader(l.Region(), &l.Layout, sub)
	require.NoError(l.t, q.Refresh())
	var published []memseg.Descriptor
	for q.Queued() > 0 {
		d, err := q.Peek()
		require.NoError(l.t, err)
		published = append(published, d)
		q.Advance()
	}
	return published
}
