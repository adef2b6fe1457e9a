package memseg

import (
	"encoding/binary"
	"fmt"
)

// A QueueReader is the consumer's end of one subpartition's queue. It loads each
// shared word once into a local copy, checks it against the layout and uses the
// copy: what the producer's process writes can spoil this stream and nothing
// else.
//
// Not safe for concurrent use.
type QueueReader struct {
	ring, events, priority []byte
	mask                   uint64
	segments, segmentSize  int

	published, position, flushed, buffers, priorityPublished *Word
	wantReleased, heldLimit                                  *Word

	next, nextPriority uint64 // ordinals to read next
	seen, seenPriority uint64 // published, as last loaded
	firstOrdinal       uint64
}

// NewQueueReader returns the consumer's end of a queue. The region may be mapped
// read-only; l is what DecodePartitionHeader accepted.
func NewQueueReader(region *Region, l *PartitionLayout, subpartition int) *QueueReader {
	base := int(l.queueOffset(subpartition))
	ringBytes := l.QueueCapacity * descriptorSize
	mem := region.Bytes()
	first := l.FirstOrdinal
	return &QueueReader{
		ring:     mem[base+queueRing:][:ringBytes],
		priority: mem[base+queueRing+ringBytes:][:priorityCapacity*descriptorSize],
		events:   mem[partEventSlots:partQueuesStart],
		mask:     uint64(l.QueueCapacity - 1),
		segments: l.Segments, segmentSize: l.SegmentSize,

		published:         region.Word(base + queuePublished),
		position:          region.Word(base + queuePosition),
		flushed:           region.Word(base + queueFlushed),
		buffers:           region.Word(base + queueBuffers),
		priorityPublished: region.Word(base + queuePriority),
		wantReleased:      region.Word(base + queueWantReleased),
		heldLimit:         region.Word(base + queueHeldLimit),

		next: first, nextPriority: first, seen: first, seenPriority: first, firstOrdinal: first,
	}
}

// FirstOrdinal is where the cursors of the queue start.
func (q *QueueReader) FirstOrdinal() uint64 { return q.firstOrdinal }

// Next returns the ordinal of the element to read next.
func (q *QueueReader) Next() uint64 { return q.next }

// Refresh loads how far the producer has published. A cursor that went back or
// beyond the ring is ErrCorrupt.
func (q *QueueReader) Refresh() error {
	p := q.published.Load()
	// The producer may be a full ring ahead of what was released, never more.
	if n := p - q.next; n > q.mask+1 || n < q.seen-q.next {
		return fmt.Errorf("producer published up to %d, reader is at %d of a ring of %d: %w", p, q.next, q.mask+1,
			ErrCorrupt)
	}
	q.seen = p
	return nil
}

// Queued returns how many elements are known to be published and not read.
func (q *QueueReader) Queued() int { return int(q.seen - q.next) }

// Peek returns the next element. Only with Queued() > 0.
func (q *QueueReader) Peek() (Descriptor, error) { return q.read(q.ring, q.mask, q.next, false) }

// Advance moves past the next element.
func (q *QueueReader) Advance() { q.next++ }

// RefreshPriority loads how many priority events wait, and returns that number. It
// returns ErrWithdrawn if the producer has given this consumer up.
func (q *QueueReader) RefreshPriority() (int, error) {
	p := q.priorityPublished.Load()
	n := p - q.nextPriority
	if n > priorityCapacity || n < q.seenPriority-q.nextPriority {
		if n-withdrawn <= priorityCapacity {
			return 0, ErrWithdrawn
		}
		return 0, fmt.Errorf("producer published %d priority events in a ring of %d: %w", n, priorityCapacity,
			ErrCorrupt)
	}
	q.seenPriority = p
	return int(n), nil
}

// NextPriority takes the next priority event. Only if RefreshPriority said so.
func (q *QueueReader) NextPriority() (Descriptor, error) {
	d, err := q.read(q.priority, priorityCapacity-1, q.nextPriority, true)
	if err == nil {
		q.nextPriority++
	}
	return d, err
}

// PriorityOrdinal returns the ordinal of the priority event to read next.
func (q *QueueReader) PriorityOrdinal() uint64 { return q.nextPriority }

func (q *QueueReader) read(ring []byte, mask, ordinal uint64, priority bool) (Descriptor, error) {
	var slot [descriptorSize]byte
	copy(slot[:], ring[(ordinal&mask)*descriptorSize:])
	le := binary.LittleEndian
	corrupt := func(field string, got uint32, want string) (Descriptor, error) {
		return Descriptor{}, fmt.Errorf("descriptor %d: %s is %d, want %s: %w", ordinal, field, got, want, ErrCorrupt)
	}
	if stamp := le.Uint32(slot[descStamp:]); stamp != uint32(ordinal+1) {
		return corrupt("stamp", stamp, fmt.Sprint(uint32(ordinal+1)))
	}
	typ, segment, length := le.Uint32(slot[descType:]), le.Uint32(slot[descSegment:]), le.Uint32(slot[descLength:])
	d := Descriptor{Type: DataType(typ), Segment: int(segment)}
	if typ > 255 || !d.Type.Valid() || (!d.Type.IsBuffer() && !d.Type.IsEvent()) {
		return corrupt("data type", typ, "a known one")
	}
	limit, size := q.segments, q.segmentSize
	if d.Type.IsEvent() {
		limit, size = eventSlots, eventSlotSize
		d.Length = int(length)
	} else {
		d.PartialRecordLength = int(length)
	}
	switch {
	case priority && !d.Type.IsEvent():
		return corrupt("data type", typ, "an event in the priority ring")
	case int(segment) >= limit:
		return corrupt("segment", segment, fmt.Sprintf("0 to %d", limit-1))
	case int(length) > size:
		return corrupt("length", length, fmt.Sprintf("at most %d", size))
	}
	return d, nil
}

// EventBytes returns the bytes of an event in its slot.
func (q *QueueReader) EventBytes(d Descriptor) []byte {
	start := d.Segment * eventSlotSize
	return q.events[start : start+d.Length : start+d.Length]
}

// Position and Flushed load the producer's stream positions.
func (q *QueueReader) Position() uint64 { return q.position.Load() }

// Flushed loads up to where data should be read without waiting.
func (q *QueueReader) Flushed() uint64 { return q.flushed.Load() }

// CrossesWantReleased reports whether moving the released cursor from old to
// new passes the point at which the producer asked to be woken.
func (q *QueueReader) CrossesWantReleased(old, new uint64) bool {
	return crosses(q.wantReleased.Load(), old, new)
}

// WantsReleased reports whether the producer has asked to be woken and the released
// cursor has not come so far.
func (q *QueueReader) WantsReleased(cursor uint64) bool {
	return !isBeyond(cursor, q.wantReleased.Load())
}
