package memseg

import (
	"encoding/binary"
	"fmt"
)

// A Descriptor is one element of a subpartition's queue: a data buffer or an
// event.
type Descriptor struct {
	// Type is the data type of the element.
	Type DataType
	// Segment is the number of the data segment, or the event slot of an event. The
	// element's bytes start at its beginning.
	Segment int
	// Length is the number of bytes of an event. A data buffer's length is in the
	// position marker of its segment.
	Length int
	// PartialRecordLength is how many bytes at the start belong to the tail of a
	// record begun in an earlier buffer.
	PartialRecordLength int
}

// A QueueWriter is the producer's end of one subpartition's queue: a ring of
// descriptors, a small ring for priority events that the consumer looks at
// first, and the words that say how far the stream goes. The bytes of events are in
// EventSlots.
//
// Positions count the stream: each finished element adds its bytes and one. Who
// owns what when: slot i of the ring belongs to the producer from the moment the
// consumer's released cursor passes i until the producer stores published = i+1.
//
// Not safe for concurrent use; the subpartition's lock guards it.
type QueueWriter struct {
	ring, priority []byte
	mask           uint64
	events         *EventSlots

	published, position, flushed, buffers, priorityPublished *Word
	wantReleased, heldLimit                                  *Word

	next, nextPriority         uint64 // ordinals to publish next
	released, releasedPriority uint64 // as last accepted from the consumer
	pos                        uint64 // value of position
	flushedPos                 uint64 // value of flushed
	numBuffers                 uint64 // value of buffers, from 0
	firstOrdinal               uint64
	unreleasedEvents           int
	eventSlot                  []int8                 // per place of the ring: the slot of an event, or noEvent
	prioritySlot               [priorityCapacity]int8 // the same of the priority ring
}

const noEvent = -1

// NewQueueWriter returns the producer's end of a queue in a region that the
// process maps for writing, and stores its initial words. events are the slots of
// that region.
func NewQueueWriter(region *Region, l *PartitionLayout, subpartition int, events *EventSlots) *QueueWriter {
	base := int(l.queueOffset(subpartition))
	ringBytes := l.QueueCapacity * descriptorSize
	mem := region.Bytes()
	q := &QueueWriter{
		ring:     mem[base+queueRing:][:ringBytes],
		priority: mem[base+queueRing+ringBytes:][:priorityCapacity*descriptorSize],
		mask:     uint64(l.QueueCapacity - 1),
		events:   events,

		published:         region.Word(base + queuePublished),
		position:          region.Word(base + queuePosition),
		flushed:           region.Word(base + queueFlushed),
		buffers:           region.Word(base + queueBuffers),
		priorityPublished: region.Word(base + queuePriority),
		wantReleased:      region.Word(base + queueWantReleased),
		heldLimit:         region.Word(base + queueHeldLimit),

		eventSlot: make([]int8, l.QueueCapacity),
	}
	first := l.FirstOrdinal
	q.firstOrdinal = first
	q.next, q.nextPriority, q.released, q.releasedPriority = first, first, first, first
	q.pos, q.flushedPos = first, first
	q.wantReleased.Store(first - 1)
	q.position.Store(first)
	q.flushed.Store(first)
	q.priorityPublished.Store(first)
	q.published.Store(first)
	return q
}

// Published returns the ordinal after the last published element.
func (q *QueueWriter) Published() uint64 { return q.next }

// Buffers returns how many data buffers were published.
func (q *QueueWriter) Buffers() uint64 { return q.numBuffers }

// Position returns the stream position up to which elements are finished.
func (q *QueueWriter) Position() uint64 { return q.pos }

// Unreleased returns how many elements the consumer has not released, as of the
// last AcceptReleased.
func (q *QueueWriter) Unreleased() int { return int(q.next - q.released) }

// Released returns the consumer's cursor, as of the last AcceptReleased.
func (q *QueueWriter) Released() uint64 { return q.released }

// HasRoom reports whether a data buffer can be published. One slot stays free,
// so that end-of-partition never waits behind data.
func (q *QueueWriter) HasRoom() bool { return q.next-q.released < q.mask }

// PublishBuffer makes an open data buffer visible to the consumer. Its segment's
// marker must hold what is committed. ErrQueueFull without HasRoom.
func (q *QueueWriter) PublishBuffer(d Descriptor) error {
	if !q.HasRoom() {
		return ErrQueueFull
	}
	q.write(q.ring, q.mask, q.next, d)
	q.eventSlot[q.next&q.mask] = noEvent
	q.next++
	q.numBuffers++
	q.buffers.StoreRelease(q.numBuffers)
	q.published.StoreRelease(q.next)
	return nil
}

// HasEventRoom reports whether an event of that type can be published. The last
// place is kept for end-of-partition, which must never wait.
func (q *QueueWriter) HasEventRoom(typ DataType) bool {
	if typ.HasPriority() {
		return q.nextPriority-q.releasedPriority < priorityCapacity
	}
	spare := 1
	if typ == EndOfPartition {
		spare = 0
	}
	return q.next-q.released <= q.mask-uint64(spare) && q.unreleasedEvents < eventsPerQueue-spare
}

// PublishEvent publishes a stored event as a finished element, and holds its slot
// until the consumer has released it. It does not signal: see Advance. ErrQueueFull
// means that the consumer must release first.
func (q *QueueWriter) PublishEvent(typ DataType, e StoredEvent) error {
	if !q.HasEventRoom(typ) {
		return ErrQueueFull
	}
	q.unreleasedEvents++
	q.events.use(e.slot, +1)
	q.write(q.ring, q.mask, q.next, Descriptor{Type: typ, Segment: e.slot, Length: e.length})
	q.eventSlot[q.next&q.mask] = int8(e.slot)
	q.next++
	q.published.StoreRelease(q.next)
	return nil
}

// PublishPriorityEvent publishes an event that the consumer reads before
// everything that is queued. Errors as of PublishEvent.
func (q *QueueWriter) PublishPriorityEvent(typ DataType, e StoredEvent) error {
	if !q.HasEventRoom(typ) {
		return ErrQueueFull
	}
	q.events.use(e.slot, +1)
	q.write(q.priority, priorityCapacity-1, q.nextPriority, Descriptor{Type: typ, Segment: e.slot, Length: e.length})
	q.prioritySlot[q.nextPriority%priorityCapacity] = int8(e.slot)
	q.nextPriority++
	q.priorityPublished.Store(q.nextPriority)
	return nil
}

func (q *QueueWriter) write(ring []byte, mask, ordinal uint64, d Descriptor) {
	slot := ring[(ordinal&mask)*descriptorSize:][:descriptorSize]
	le := binary.LittleEndian
	length := d.Length
	if d.Type.IsBuffer() {
		length = d.PartialRecordLength
	}
	le.PutUint32(slot[descStamp:], uint32(ordinal+1))
	le.PutUint32(slot[descSegment:], uint32(d.Segment))
	le.PutUint32(slot[descLength:], uint32(length))
	le.PutUint32(slot[descType:], uint32(d.Type))
}

// Advance moves the position past finished elements with so many bytes and
// reports whether that crosses the position at which the consumer asked to be
// woken: if so, the caller rings the consumer's doorbell once. want is the
// consumer's word.
func (q *QueueWriter) Advance(bytes, elements int, want *Word) (ring bool) {
	old := q.pos
	q.pos += uint64(bytes) + uint64(elements)
	q.position.Store(q.pos)
	if want == nil {
		return false
	}
	return crosses(want.Load(), old, q.pos)
}

// Flush says that everything up to openBytes of the open buffer should be read
// without waiting for more, and reports whether to ring. A flush that adds
// nothing to the last one does not ring.
func (q *QueueWriter) Flush(openBytes int, want *Word) (ring bool) {
	to := q.pos + uint64(openBytes)
	if !isBeyond(to, q.flushedPos) {
		return false
	}
	q.flushedPos = to
	q.flushed.Store(to)
	return want != nil && q.armed(want)
}

// NotifyPriority reports whether a priority event must ring: always, if there is
// a consumer. One that a barrier blocks sleeps although its want was crossed, and
// a priority event is what it waits for.
func (q *QueueWriter) NotifyPriority(want *Word) (ring bool) { return want != nil }

// armed reports whether the consumer may be asleep: the position it waits for is
// not reached, so no crossing has rung for it. A stale want costs a spare ring.
func (q *QueueWriter) armed(want *Word) bool { return !isBeyond(q.pos, want.Load()) }

// ArmReleased asks the consumer to ring the producer's doorbell when it has
// released count more elements than AcceptReleased has seen.
func (q *QueueWriter) ArmReleased(count int) { q.wantReleased.Store(q.released + uint64(count) - 1) }

// ArmedIsReleased reports whether the consumer's cursor has passed what the last
// ArmReleased asked for.
func (q *QueueWriter) ArmedIsReleased(cursor uint64) bool {
	return isBeyond(cursor, q.wantReleased.Load())
}

// AcceptReleased takes the consumer's cumulative cursor, calls f for each data
// element that was released (by ordinal) and returns the number of elements.
// finished is the number of elements that may be released: all published ones
// but an open buffer. A cursor outside that range is ErrCorrupt, and nothing
// is accepted.
func (q *QueueWriter) AcceptReleased(cursor uint64, open bool, f func(ordinal uint64)) (int, error) {
	limit := q.next - q.released
	if open {
		limit--
	}
	n := cursor - q.released
	if n > limit {
		return 0, fmt.Errorf("consumer released up to %d, of %d to %d: %w", cursor, q.released, q.released+limit,
			ErrCorrupt)
	}
	for i := q.released; i != cursor; i++ {
		if slot := q.eventSlot[i&q.mask]; slot != noEvent {
			q.events.use(int(slot), -1)
			q.unreleasedEvents--
		} else {
			f(i)
		}
	}
	q.released = cursor
	return int(n), nil
}

// AcceptPriorityReleased is AcceptReleased for the priority ring.
func (q *QueueWriter) AcceptPriorityReleased(cursor uint64) error {
	if n := cursor - q.releasedPriority; n > q.nextPriority-q.releasedPriority {
		return fmt.Errorf("consumer released priority events up to %d of %d: %w", cursor, q.nextPriority, ErrCorrupt)
	}
	for ; q.releasedPriority != cursor; q.releasedPriority++ {
		q.events.use(int(q.prioritySlot[q.releasedPriority%priorityCapacity]), -1)
	}
	return nil
}

// Withdraw ends the queue for its consumer, which is said to be gone. Should it be
// there nevertheless, it finds ErrWithdrawn before its next element, and so before the
// end: from now on, what it has not released is used for others. The slots of its
// priority events are free again. Elements may be published and accepted as released
// as before, priority events may not.
func (q *QueueWriter) Withdraw() {
	_ = q.AcceptPriorityReleased(q.nextPriority) // cannot be beyond
	q.priorityPublished.Store(q.nextPriority + withdrawn)
}
