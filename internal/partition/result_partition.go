package partition

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shuffled/internal/absent"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// A Lifecycle carries the end of a partition to whoever hosts it.
type Lifecycle interface {
	// FinishPartition says that end-of-partition is published everywhere.
	FinishPartition(ctx context.Context) error
	// FailPartition says that no more data will come, and why.
	FailPartition(ctx context.Context, cause string) error
	// ReleasePartition gives the partition up.
	ReleasePartition(ctx context.Context) error
	// ClosePartition drops the producer's hold on its resources.
	ClosePartition() error
}

// A ResultPartition is a shuffle.ResultPartition, with what its host has of it.
//
// The attaching of consumers and everything else that the host tells it may come from
// any goroutine, beside the writer's. Of a partition that was not created, a nil or zero
// one, every call is ErrInvalidArgument, and it has no subpartitions and no counts.
//
// A fault of the mapping in a call ends the partition with shuffle.ErrFault, but for
// bytes that are written into a buffer that has room, by StartRecord or Reserve and in
// broadcast records: that kills the process, unless the goroutine has set
// debug.SetPanicOnFault.
type ResultPartition struct {
	spec      shuffle.PartitionSpec
	layout    memseg.PartitionLayout
	memory    memseg.RegionSegments
	words     memseg.PartitionWords
	bell      *memseg.Doorbell
	pool      *pool.LocalBufferPool
	lifecycle Lifecycle

	subpartitions []*ResultSubpartition
	events        *memseg.EventSlots

	// For each segment: its memory once it was used, how many queues still hold it
	// if several have shared it, and the subpartition that the pool counts it for.
	// All of it lives in this process alone. Writer's goroutine: segments, charged.
	segments []*memseg.MemorySegment
	holders  []atomic.Int32
	charged  []int32

	broadcastMu   sync.Mutex // guards the two below; taken before a subpartition's
	broadcast     memseg.BufferBuilder
	broadcastOpen bool
	broadcastNow  bool // the writer's own: the last record was broadcast

	reserved reservation

	// A call of the writer's goroutine holds writing, which keeps the region mapped,
	// and guards begun, what the call has published half of, finished, whether the end
	// was acknowledged, writer, the goroutine, and into which builders it was let.
	writing   sync.Mutex
	begun     string
	finished  bool
	writer    memseg.Goroutine
	handedOut []*ResultSubpartition
	claimed   atomic.Bool // by a writer

	ending     sync.Mutex            // held to publish the end, or to fail instead
	published  atomic.Bool           // end-of-partition
	ended      atomic.Pointer[error] // why writing is over
	daemonLost atomic.Pointer[error]
	closing    atomic.Bool
	closed     atomic.Bool
	useMu      sync.RWMutex // held for reading while other goroutines use the region

	backPressured  *memseg.Stopwatch
	counted, idled atomic.Int64 // last SetCounters
}

var _ shuffle.ResultPartition = (*ResultPartition)(nil)

// NewResultPartition returns the producer's end of a partition in region, whose
// layout was checked against it. doorbell is the partition's, with a bit for
// each subpartition. The pool's segments are those of the layout. None of them may be
// nil.
func NewResultPartition(spec shuffle.PartitionSpec, region *memseg.Region, l memseg.PartitionLayout,
	doorbell *memseg.Region,
	segments *pool.LocalBufferPool, lifecycle Lifecycle,
) (*ResultPartition, error) {
	if region == nil || doorbell == nil || segments == nil || absent.Is(lifecycle) {
		return nil, fmt.Errorf("partition %s: its region, doorbell, pool or lifecycle is nil: %w", spec.Label(),
			shuffle.ErrInvalidArgument)
	}
	bell, err := memseg.NewDoorbell(doorbell, l.Subpartitions)
	if err != nil {
		return nil, fmt.Errorf("partition %s: %w", spec.Label(), err)
	}
	p := &ResultPartition{
		spec: spec, layout: l, memory: memseg.NewRegionSegments(region, &l), bell: bell, pool: segments,
		lifecycle: lifecycle,
		words:     memseg.NewPartitionWords(region),
		segments:  make([]*memseg.MemorySegment, l.Segments),
		holders:   make([]atomic.Int32, l.Segments),
		charged:   make([]int32, l.Segments),
		events:    memseg.NewEventSlots(region),
	}
	for i := range l.Subpartitions {
		p.subpartitions = append(p.subpartitions, &ResultSubpartition{
			partition: p, index: i, key: l.QueueKey(i), builder: &memseg.BufferBuilder{},
			queue: memseg.NewQueueWriter(region, &l, i, p.events), segments: make([]int32, l.QueueCapacity),
		})
	}
	p.backPressured = memseg.NewStopwatch(p.words.BackPressuredNs)
	p.words.PoolSize.Store(uint64(segments.Size()))
	return p, nil
}

// errNoPartition is about a partition that is nil or zero.
var errNoPartition = fmt.Errorf("the ResultPartition was not created, client.CreatePartition returns one: %w",
	shuffle.ErrInvalidArgument)

// check refuses a partition that was not created.
func (p *ResultPartition) check() error {
	if p == nil || p.bell == nil {
		return errNoPartition
	}
	return nil
}

// Spec implements shuffle.ResultPartition.
func (p *ResultPartition) Spec() shuffle.PartitionSpec {
	if p == nil {
		return shuffle.PartitionSpec{}
	}
	return p.spec
}

// ID implements shuffle.ResultPartition.
func (p *ResultPartition) ID() shuffle.PartitionID {
	if p == nil {
		return shuffle.PartitionID{}
	}
	return p.spec.ID
}

// NumSubpartitions implements shuffle.ResultPartition.
func (p *ResultPartition) NumSubpartitions() int {
	if p == nil {
		return 0
	}
	return len(p.subpartitions)
}

// Subpartition returns the i-th subpartition, or nil if there is none. It is there for
// tests, which have no other way to see what a consumer has not released yet.
func (p *ResultPartition) Subpartition(i int) *ResultSubpartition {
	if i < 0 || i >= p.NumSubpartitions() {
		return nil
	}
	return p.subpartitions[i]
}

// BytesOut implements shuffle.ResultPartition.
func (p *ResultPartition) BytesOut() int64 {
	bytes, _ := p.out()
	return bytes
}

// BuffersOut implements shuffle.ResultPartition.
func (p *ResultPartition) BuffersOut() int64 {
	_, buffers := p.out()
	return buffers
}

func (p *ResultPartition) out() (bytes, buffers int64) {
	if p.check() != nil {
		return 0, 0
	}
	for _, s := range p.subpartitions {
		more, moreBuffers := s.out()
		bytes += more
		buffers += moreBuffers
	}
	return bytes, buffers
}

// BackPressured implements shuffle.ResultPartition.
func (p *ResultPartition) BackPressured() time.Duration {
	if p.check() != nil {
		return 0
	}
	return p.backPressured.Total()
}

// SetCounters publishes the writer's counters for operators to see: records
// emitted and time spent idle.
func (p *ResultPartition) SetCounters(records int64, idle time.Duration) {
	if p.enter() == nil {
		defer p.leave()
		// Shared pages are left alone while nothing changes: an idle writer's flusher
		// comes by ten times a second.
		if p.counted.Swap(records) != records {
			p.words.Records.Store(uint64(records))
		}
		if p.idled.Swap(int64(idle)) != int64(idle) {
			p.words.IdleNs.Store(uint64(idle))
		}
	}
}

// enter keeps the region mapped until leave.
func (p *ResultPartition) enter() error {
	if err := p.check(); err != nil {
		return err
	}
	p.useMu.RLock()
	if p.closed.Load() {
		p.useMu.RUnlock()
		return p.closedError()
	}
	return nil
}

func (p *ResultPartition) leave() { p.useMu.RUnlock() }

// HasEnded reports whether nothing can be written any more, though the end of the
// partition is not published: it has failed, or was released, closed or ended by its host.
func (p *ResultPartition) HasEnded() bool { return p != nil && p.ended.Load() != nil }

// checkWritable returns why nothing can be written any more.
func (p *ResultPartition) checkWritable() error {
	if err := p.ended.Load(); err != nil {
		return *err
	}
	if p.published.Load() {
		return fmt.Errorf("partition %s: %w", p.label(), shuffle.ErrFinished)
	}
	return nil
}
