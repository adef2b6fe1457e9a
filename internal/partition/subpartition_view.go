package partition

import (
	"errors"
	"fmt"
	"sync"

	"shuffled/internal/probe"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// A SubpartitionView is the consumer's end of one subpartition, in the
// producer's process or another one: it reads buffers in place and tells the
// producer how far they may be used again. What it hands out and when is as of
// Flink's PipelinedSubpartitionView.
//
// One goroutine reads and closes. Buffers may be released from any goroutine,
// also after Close, which keeps the memory mapped until the last of them is.
// After Close, Take and ResumeConsumption return ErrClosed and nothing is
// available.
type SubpartitionView struct {
	queue    *memseg.QueueReader
	segments memseg.RegionSegments
	layout   memseg.PartitionLayout
	presence memseg.Presence
	key      uint64 // names the queue to observers
	poolSize *memseg.Word
	parked   *memseg.Word32
	words    memseg.ChannelWords // ours to write
	producer producerLink

	head       memseg.BufferConsumer // of the element at queue.Next(), if reading
	marked     bool                  // observers were told of it
	position   uint64                // stream position up to which we have read
	blocked    bool
	ended      bool
	hasMore    bool // Take has stopped in the middle of empty buffers
	stuck      stuckProducer
	priorities priorityRecycler

	// Of the goroutine that reads, and of others once they have found closed under mu.
	reading   bool
	consumed  uint64 // elements read to their end
	allowance allowance

	mu       sync.Mutex // guards the rest
	recycled uint64     // of the consumed elements, how many the user has released
	released uint64     // value of words.Released: all before it are
	done     []bool     // ring: element is released by the user, not yet counted
	closed   bool       // changes in Close only
	whole    bool       // what Close was told
	unmapped bool
	onClosed func(whole bool)

	prioritiesHanded, prioritiesReleased uint64
	prioritiesDone                       uint64 // bit per ordinal: released, not yet counted
}

// maxPrioritiesHanded is how many priority events can be told apart while they are
// not released, which is more than a producer may publish.
const maxPrioritiesHanded = 64

type producerLink struct {
	bell         *memseg.Doorbell
	parked       *memseg.Word32
	subpartition int
}

func (l *producerLink) ring() { l.bell.Ring(l.subpartition, l.parked) }

// priorityRecycler counts released priority events, of which there are few.
type priorityRecycler struct{ view *SubpartitionView }

// NewSubpartitionView returns the consumer's end of a subpartition. region is the
// partition's, mapped for reading at least; doorbell is the partition's; words
// are those of the gate's channel. It takes over the caller's reference of
// region. closed is called once when the last buffer of a closed view is
// released, with what Close was told; it may be nil. The regions and the words may not.
func NewSubpartitionView(region *memseg.Region, l memseg.PartitionLayout, doorbell *memseg.Region, subpartition int,
	words memseg.ChannelWords, closed func(whole bool),
) (*SubpartitionView, error) {
	if subpartition < 0 || subpartition >= l.Subpartitions {
		return nil, fmt.Errorf("subpartition %d of %d: %w", subpartition, l.Subpartitions, shuffle.ErrInvalidArgument)
	}
	if region == nil || doorbell == nil || words.Released == nil || words.PriorityReleased == nil || words.Want == nil {
		return nil, fmt.Errorf("open subpartition %d: its region, doorbell or channel is nil: %w", subpartition,
			shuffle.ErrInvalidArgument)
	}
	bell, err := memseg.NewDoorbell(doorbell, l.Subpartitions)
	if err != nil {
		return nil, fmt.Errorf("open subpartition %d: %w", subpartition, err)
	}
	part := memseg.NewPartitionWords(region)
	v := &SubpartitionView{
		queue: memseg.NewQueueReader(region, &l, subpartition), segments: memseg.NewRegionSegments(region, &l),
		layout: l, key: l.QueueKey(subpartition),
		presence: memseg.NewPresence(region),
		poolSize: part.PoolSize, words: words,
		producer: producerLink{bell: bell, parked: part.Parked, subpartition: subpartition},
		done:     make([]bool, l.QueueCapacity), onClosed: closed,
	}
	v.priorities.view = v
	first := l.FirstOrdinal
	v.parked = part.Parked
	v.position, v.consumed, v.recycled, v.released = first, first, first, first
	v.allowance.until = first - 1
	words.Want.Store(first - 1)
	words.PriorityReleased.Store(first)
	words.Released.Store(first)
	return v, nil
}

// Take takes the next element into b and reports whether there was one. Partial
// content of an unfinished buffer is an element too; empty ones are passed over.
// While it knows of more elements than one it looks at no word that the producer
// writes for each of them: the line of such a word goes back and forth.
//
// It passes over a bounded number of empty buffers: without an element, HasMore
// says whether there may be one behind them.
//
// What the producer's process wrote against the layout is ErrProtocol and ends
// the stream, as do ErrConsumerLost and, once the memory of the partition was taken
// away, ErrPartitionReleased. ErrTooManyBuffersHeld leaves everything as it is: release buffers
// and take again.
func (v *SubpartitionView) Take(b *memseg.Buffer) (ok bool, err error) {
	if v.closed {
		return false, v.closedError()
	}
	v.hasMore = false
	if n, err := v.queue.RefreshPriority(); err != nil {
		return false, v.protocolError(err)
	} else if n > 0 {
		return v.takePriority(b)
	}
	if v.blocked || v.ended {
		return false, nil
	}
	position, flushed := v.position, v.position
	if v.queue.Queued() <= 1 {
		// Loaded before the queue: what they promise must be there.
		position, flushed = v.queue.Position(), v.queue.Flushed()
	}
	for empty := 0; ; empty++ {
		if empty == maxEmpties {
			v.hasMore = true
			return false, nil
		}
		ok, err := v.startHead()
		if err != nil {
			return false, err
		}
		if !ok {
			return false, v.checkAtEnd(position, flushed)
		}
		if err := v.head.Build(b); err != nil {
			return false, v.protocolError(err)
		}
		if !v.presence.Holds() {
			_ = b.Release()
			return false, v.CheckMemory()
		}
		finished := v.head.IsFinished()
		if !finished && v.queue.Queued() > 1 {
			_ = b.Release()
			return false, v.protocolError(fmt.Errorf("element %d is unfinished and not the last: %w", v.queue.Next(),
				memseg.ErrCorrupt))
		}
		typ := v.head.DataType()
		if typ.IsBuffer() {
			v.position += uint64(b.Len())
			if ordinal := v.queue.Next(); !v.marked && b.Len() > 0 && probe.Marks(ordinal) {
				v.marked = true
				probe.Consume(v.key, ordinal, uint64(b.Len()))
			}
		}
		if finished {
			v.finishHead(typ)
		}
		if b.Len() == 0 {
			_ = b.Release()
			if finished {
				continue
			}
			return false, v.checkAtEnd(position, flushed)
		}
		return true, nil
	}
}

// maxEmpties is how many empty buffers are passed over at a time. A producer has
// no reason to finish any, but nothing keeps it from going on with them for ever.
const maxEmpties = 64

// HasMore reports whether the last Take has stopped between empty buffers.
func (v *SubpartitionView) HasMore() bool { return v.hasMore }

// ContinuesRecord reports whether what Take would return begins within a record.
// Only a buffer that is read from its start can, since what is committed in an open
// one are whole records.
func (v *SubpartitionView) ContinuesRecord() bool {
	if v.closed || v.reading || v.queue.Queued() == 0 && (v.queue.Refresh() != nil || v.queue.Queued() == 0) {
		return false
	}
	d, err := v.queue.Peek()
	return err == nil && d.Type.IsBuffer() && d.PartialRecordLength > 0
}

// checkAtEnd returns ErrProtocol if the producer had promised more than there is:
// a consumer that believed it would look for it for ever.
func (v *SubpartitionView) checkAtEnd(position, flushed uint64) error {
	for _, promised := range []uint64{position, flushed} {
		if v.isBehind(promised) {
			return v.protocolError(fmt.Errorf("the stream ends at %d and is said to go on to %d: %w", v.position,
				promised, memseg.ErrCorrupt))
		}
	}
	return nil
}

// startHead opens the element at the head of the queue, if there is one.
func (v *SubpartitionView) startHead() (bool, error) {
	if v.queue.Queued() <= 1 {
		if err := v.queue.Refresh(); err != nil {
			return false, v.protocolError(err)
		}
	}
	if v.reading {
		return true, nil
	}
	if v.queue.Queued() == 0 {
		return false, nil
	}
	if !v.isAllowed() {
		if err := v.checkHeld(); err != nil {
			return false, err
		}
	}
	d, err := v.queue.Peek()
	if err != nil {
		return false, v.protocolError(err)
	}
	v.marked = false
	if d.Type.IsEvent() {
		v.head.ResetStatic(v.queue.EventBytes(d), d.Type, v, v.queue.Next())
	} else {
		v.head.Reset(v.segments.Bytes(d.Segment), v.segments.Marker(d.Segment), d.Type, v, v.queue.Next())
	}
	v.reading = true
	return true, nil
}

func (v *SubpartitionView) finishHead(typ memseg.DataType) {
	v.queue.Advance()
	v.position++
	v.reading = false
	v.consumed++
	if typ.IsBlockingUpstream() {
		v.blocked = true
	}
	if typ == memseg.EndOfPartition {
		v.ended = true
	}
	v.head.Close()
}

func (v *SubpartitionView) takePriority(b *memseg.Buffer) (ok bool, err error) {
	ordinal := v.queue.PriorityOrdinal()
	d, err := v.queue.NextPriority()
	if err == nil && !d.Type.HasPriority() {
		err = fmt.Errorf("%s in the priority ring: %w", d.Type, memseg.ErrCorrupt)
	}
	if err != nil {
		return false, v.protocolError(err)
	}
	v.mu.Lock()
	kept := v.prioritiesHanded - v.prioritiesReleased
	if kept < maxPrioritiesHanded {
		v.prioritiesHanded++
	}
	v.mu.Unlock()
	if kept >= maxPrioritiesHanded {
		return false, v.protocolError(fmt.Errorf("priority event %d was published before %d others were released: %w",
			ordinal, kept, memseg.ErrCorrupt))
	}
	c := memseg.NewStaticBufferConsumer(v.queue.EventBytes(d), d.Type, &v.priorities, ordinal)
	if err := c.Build(b); err != nil {
		return false, v.protocolError(err)
	}
	c.Close()
	if !v.presence.Holds() {
		_ = b.Release()
		return false, v.CheckMemory()
	}
	return true, nil
}

// HasPriority reports whether the element that Take would return has priority.
func (v *SubpartitionView) HasPriority() bool {
	n, err := v.queue.RefreshPriority()
	return n > 0 && err == nil && !v.closed
}

// IsAvailableBeyond reports whether Take has something that need not wait: a finished
// buffer, an event, or what was flushed. Committed bytes of the open buffer alone do not
// count, though Take would return them. The consumer leaves so many bytes of the
// finished data unread unless they were flushed, but at most half of the largest
// threshold that Arm grants. What the view knows of already is not left.
func (v *SubpartitionView) IsAvailableBeyond(leave int) bool {
	if v.closed {
		return false
	}
	if v.queue.Queued() > 1 && !v.blocked && !v.ended {
		return true
	}
	if n, err := v.queue.RefreshPriority(); n > 0 || err != nil {
		return true
	}
	if v.blocked || v.ended {
		return false
	}
	return v.isBehind(v.queue.Flushed()) || v.isBehind(v.queue.Position()-min(uint64(leave), v.maxThreshold()/2))
}

func (v *SubpartitionView) isBehind(position uint64) bool { return int64(position-v.position) > 0 }

// Arm asks the producer to wake the consumer once the stream lies more than
// threshold bytes beyond what was read, or on a flush, an event or the end. It
// reports whether there is nothing to read until then: false means go on
// reading. The threshold is cut to half of this subpartition's share of the
// producer's pool, so that the producer never waits for a consumer that waits for
// it.
func (v *SubpartitionView) Arm(threshold int) (idle bool) {
	if v.closed {
		return true
	}
	want := v.position + min(uint64(threshold), v.maxThreshold())
	v.words.Want.Store(want)
	if n, err := v.queue.RefreshPriority(); n > 0 || err != nil {
		return false
	}
	if v.blocked || v.ended {
		return true
	}
	return !v.isBehind(v.queue.Flushed()) && int64(v.queue.Position()-want) <= 0
}

// maxThreshold is half of this subpartition's share of the producer's pool, in bytes.
func (v *SubpartitionView) maxThreshold() uint64 {
	return v.poolSize.Load() * uint64(v.layout.SegmentSize) / uint64(2*v.layout.Subpartitions)
}

// ResumeConsumption ends the blocking that followed a barrier; without one it is
// ErrProtocol.
func (v *SubpartitionView) ResumeConsumption() error {
	if v.closed {
		return v.closedError()
	}
	if !v.blocked {
		return fmt.Errorf("resume consumption of a subpartition that is not blocked: %w", shuffle.ErrProtocol)
	}
	v.blocked = false
	return nil
}

// Position returns the stream position up to which the consumer has read: each
// element that was read to its end counts one, and each byte of data.
func (v *SubpartitionView) Position() uint64 { return v.position }

// Ended reports whether end-of-partition was read. Whether what came before it is whole
// is for the reader to say, when it closes the view.
func (v *SubpartitionView) Ended() bool { return v.ended }

// Close ends the view and says whether its stream was whole: read to its end, with
// nothing lost. The partition stays mapped until the last buffer that the view handed
// out is released. A second Close does nothing.
func (v *SubpartitionView) Close(whole bool) {
	v.mu.Lock()
	if !v.closed {
		v.closed, v.whole = true, whole
	}
	v.mu.Unlock()
	if v.reading {
		v.head.Close() // not counted as released: it is not finished
		return
	}
	v.mu.Lock()
	v.unlockAndUnmap()
}

// unlockAndUnmap gives up mu, and the partition's memory if the view is closed
// and nothing of it is in use.
func (v *SubpartitionView) unlockAndUnmap() {
	if !v.closed || v.unmapped {
		v.mu.Unlock()
		return
	}
	headInUse := v.reading && !v.done[v.consumed&uint64(len(v.done)-1)]
	last := !headInUse && v.released == v.consumed && v.prioritiesReleased == v.prioritiesHanded
	v.unmapped = last
	v.mu.Unlock()
	if last && v.onClosed != nil {
		v.onClosed(v.whole)
	}
}

func (v *SubpartitionView) closedError() error {
	return fmt.Errorf("subpartition %d of partition %s: %w", v.producer.subpartition, shuffle.PartitionID(v.layout.ID),
		shuffle.ErrClosed)
}

// Presence tells whether what was read in place is what the producer wrote.
func (v *SubpartitionView) Presence() memseg.Presence { return v.presence }

// CheckMemory returns ErrPartitionReleased once the memory of the partition was taken
// away. The view or a buffer of it must not have been let go.
func (v *SubpartitionView) CheckMemory() error {
	if v.presence.Holds() {
		return nil
	}
	return fmt.Errorf("subpartition %d of partition %s: its memory was taken away: %w", v.producer.subpartition,
		shuffle.PartitionID(v.layout.ID), shuffle.ErrPartitionReleased)
}

func (v *SubpartitionView) protocolError(err error) error {
	if taken := v.CheckMemory(); taken != nil {
		return taken // what was read was zeros
	}
	if errors.Is(err, memseg.ErrWithdrawn) {
		return fmt.Errorf("subpartition %d of partition %s: %w: %w", v.producer.subpartition,
			shuffle.PartitionID(v.layout.ID), err, shuffle.ErrConsumerLost)
	}
	return fmt.Errorf("subpartition %d of partition %s: %w: %w", v.producer.subpartition,
		shuffle.PartitionID(v.layout.ID), err, shuffle.ErrProtocol)
}
