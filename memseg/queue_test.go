package memseg

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A queuePair is both ends of the queue of subpartition 1 of 2, and the words of
// its consumer.
type queuePair struct {
	layout   PartitionLayout
	region   *Region
	segments RegionSegments
	events   *EventSlots
	writer   *QueueWriter
	reader   *QueueReader
	words    ChannelWords
	first    uint64
}

const (
	pairSegments    = 8
	pairSegmentSize = 512
)

func newQueuePair(t testing.TB, newRegion func(testing.TB, int) *Region, first uint64) *queuePair {
	l := testLayout(t, 2, pairSegments, pairSegmentSize)
	l.FirstOrdinal = first
	region := newRegion(t, int(l.RegionSize()))
	gate, err := NewGateLayout(1, 3)
	require.NoError(t, err)
	events := NewEventSlots(region)
	p := &queuePair{
		layout: l, region: region, segments: NewRegionSegments(region, &l), first: first, events: events,
		writer: NewQueueWriter(region, &l, 1, events), reader: NewQueueReader(region, &l, 1),
		words: NewChannelWords(newRegion(t, int(gate.RegionSize())), &gate, 2),
	}
	p.words.Released.Store(first)
	p.words.PriorityReleased.Store(first)
	p.words.Want.Store(first - 1)
	return p
}

// publishEvent stores an event and publishes it, alone of all queues.
func (q *queuePair) publishEvent(typ DataType, content []byte) error {
	e, err := q.events.Put(content)
	if err != nil {
		return err
	}
	defer q.events.Release(e)
	if typ.HasPriority() {
		return q.writer.PublishPriorityEvent(typ, e)
	}
	return q.writer.PublishEvent(typ, e)
}

// firstOrdinals are where cursors start: at zero, and just below the two places
// where a cursor of 32 or 64 bits wraps.
var firstOrdinals = []uint64{0, 1<<32 - 5, math.MaxUint64 - 4}

func overQueues(t *testing.T, f func(t *testing.T, q *queuePair)) {
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		for _, first := range firstOrdinals {
			t.Run(fmt.Sprintf("from %d", int64(first)), func(t *testing.T) { f(t, newQueuePair(t, newRegion, first)) })
		}
	})
}

// data is the descriptor of the n-th data buffer.
func data(n int) Descriptor {
	return Descriptor{Type: DataBuffer, Segment: n % pairSegments, PartialRecordLength: n % (pairSegmentSize + 1)}
}

// reads takes the next element and checks it.
func (q *queuePair) reads(t *testing.T, want Descriptor) {
	t.Helper()
	if q.reader.Queued() == 0 {
		require.NoError(t, q.reader.Refresh())
	}
	require.Positive(t, q.reader.Queued())
	got, err := q.reader.Peek()
	require.NoError(t, err)
	require.Equal(t, want, got)
	q.reader.Advance()
}

// release moves the consumer's cursor to everything that was read, and has the
// writer take it.
func (q *queuePair) release(t *testing.T) {
	t.Helper()
	q.words.Released.Store(q.reader.Next())
	_, err := q.writer.AcceptReleased(q.words.Released.Load(), false, func(uint64) {})
	require.NoError(t, err)
}

func TestNewQueueIsEmpty(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		require.NoError(t, q.reader.Refresh())
		require.Zero(t, q.reader.Queued())
		n, err := q.reader.RefreshPriority()
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, q.first, q.reader.FirstOrdinal())
		require.Equal(t, q.first, q.reader.Next())
		require.Equal(t, q.first, q.reader.PriorityOrdinal())
		require.Equal(t, q.first, q.reader.Position())
		require.Equal(t, q.first, q.reader.Flushed())
		require.Equal(t, q.first, q.writer.Published())
		require.Equal(t, q.first, q.writer.Position())
		require.Zero(t, q.writer.Unreleased())
		require.True(t, q.writer.HasRoom())
		require.False(t, q.reader.CrossesWantReleased(q.first, q.first+100), "the writer did not ask yet")
	})
}

func TestElementsAreReadInOrderOverManyLaps(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		written, read := 0, 0
		random := newRandom(t)
		for read < 40*q.layout.QueueCapacity {
			for range random.IntN(q.layout.QueueCapacity) {
				if !q.writer.HasRoom() {
					break
				}
				require.NoError(t, q.writer.PublishBuffer(data(written)))
				written++
				require.Equal(t, q.first+uint64(written), q.writer.Published())
			}
			require.NoError(t, q.reader.Refresh())
			require.Equal(t, written-read, q.reader.Queued())
			for range random.IntN(q.reader.Queued() + 1) {
				q.reads(t, data(read))
				read++
			}
			q.release(t)
			require.Equal(t, written-read, q.writer.Unreleased())
		}
	})
}

func TestFullRingRefusesAllButEndOfPartition(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		n := q.layout.QueueCapacity - 1
		for i := range n {
			require.True(t, q.writer.HasRoom())
			require.NoError(t, q.writer.PublishBuffer(data(i)))
		}
		require.False(t, q.writer.HasRoom())
		require.ErrorIs(t, q.writer.PublishBuffer(data(n)), ErrQueueFull)
		require.ErrorIs(t, q.publishEvent(EventBuffer, []byte("event")), ErrQueueFull)
		require.Equal(t, n, q.writer.Unreleased())

		require.NoError(t, q.publishEvent(EndOfPartition, []byte("end")))
		require.ErrorIs(t, q.publishEvent(EndOfPartition, nil), ErrQueueFull)
		require.Equal(t, n+1, q.writer.Unreleased())
		require.NoError(t, q.reader.Refresh())
		require.Equal(t, n+1, q.reader.Queued(), "a whole ring")
		for i := range n {
			q.reads(t, data(i))
		}
		end := Descriptor{Type: EndOfPartition, Length: 3}
		got, err := q.reader.Peek()
		require.NoError(t, err)
		require.Equal(t, "end", string(q.reader.EventBytes(got)))
		q.reads(t, end)
		q.release(t)
		require.Zero(t, q.writer.Unreleased())
		require.True(t, q.writer.HasRoom())
	})
}

func TestOneReleaseMakesRoomForOneElement(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		n := 0
		for ; q.writer.HasRoom(); n++ {
			require.NoError(t, q.writer.PublishBuffer(data(n)))
		}
		for read := range 3 * q.layout.QueueCapacity {
			q.reads(t, data(read))
			require.False(t, q.writer.HasRoom(), "reading is not releasing")
			q.release(t)
			require.True(t, q.writer.HasRoom())
			require.NoError(t, q.writer.PublishBuffer(data(n)))
			require.ErrorIs(t, q.writer.PublishBuffer(data(n)), ErrQueueFull)
			n++
		}
	})
}

func TestQueueTakesFifteenEventsAndKeepsAPlaceForTheEnd(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		content := func(i int) []byte { return []byte(strings.Repeat(string(rune('a'+i%26)), 1+i%eventSlotSize)) }
		published, read := 0, 0
		readOne := func() {
			require.NoError(t, q.reader.Refresh())
			d, err := q.reader.Peek()
			require.NoError(t, err)
			require.Equal(t, Descriptor{Type: EventBuffer, Segment: d.Segment, Length: 1 + read%eventSlotSize}, d)
			require.Equal(t, content(read), q.reader.EventBytes(d), "the slot was not used again")
			require.Equal(t, d.Length, cap(q.reader.EventBytes(d)))
			q.reader.Advance()
			read++
		}
		for range 20 {
			for q.publishEvent(EventBuffer, content(published)) == nil {
				published++
			}
			require.Equal(t, eventsPerQueue-1, published-read, "one place stays free")
			require.ErrorIs(t, q.publishEvent(EventBuffer, nil), ErrQueueFull)
			require.NoError(t, q.writer.PublishBuffer(data(0)), "data needs no slot")
			for range 4 {
				readOne()
			}
			q.release(t)
			for range 4 {
				require.NoError(t, q.publishEvent(EventBuffer, content(published)))
				published++
			}
			require.ErrorIs(t, q.publishEvent(EventBuffer, nil), ErrQueueFull)
			for read < published {
				require.NoError(t, q.reader.Refresh())
				if d, err := q.reader.Peek(); err == nil && d.Type == DataBuffer {
					q.reader.Advance()
					continue
				}
				readOne()
			}
			require.NoError(t, q.reader.Refresh())
			for q.reader.Queued() > 0 {
				q.reader.Advance()
			}
			q.release(t)
		}
		for range eventsPerQueue - 1 {
			require.NoError(t, q.publishEvent(EventBuffer, content(published)))
			published++
		}
		require.ErrorIs(t, q.publishEvent(EventBuffer, nil), ErrQueueFull)
		require.NoError(t, q.publishEvent(EndOfPartition, nil), "never waits behind other events")
		for range eventsPerQueue - 1 {
			readOne()
		}
	})
}

func TestEventLargerThanASlotIsRefusedAndChangesNothing(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		large := make([]byte, EventSlotSize+1)
		require.ErrorIs(t, q.publishEvent(EventBuffer, large), ErrEventTooLarge)
		require.ErrorIs(t, q.publishEvent(PrioritizedEventBuffer, large), ErrEventTooLarge)
		require.NoError(t, q.reader.Refresh())
		require.Zero(t, q.reader.Queued())

		largest := []byte(strings.Repeat("x", EventSlotSize))
		require.NoError(t, q.publishEvent(EventBuffer, largest))
		require.NoError(t, q.reader.Refresh())
		d, err := q.reader.Peek()
		require.NoError(t, err)
		require.Equal(t, largest, q.reader.EventBytes(d))
	})
}

func TestPriorityEventsHaveARingOfTheirOwn(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		for q.writer.HasRoom() {
			require.NoError(t, q.writer.PublishBuffer(data(0)))
		}
		published := 0
		publish := func() error {
			return q.publishEvent(PrioritizedEventBuffer, fmt.Appendf(nil, "event %d", published))
		}
		for lap := range 5 {
			for range priorityCapacity {
				require.NoError(t, publish(), "though the other ring is full")
				published++
			}
			require.ErrorIs(t, publish(), ErrQueueFull)
			n, err := q.reader.RefreshPriority()
			require.NoError(t, err)
			require.Equal(t, priorityCapacity, n)
			for i := range priorityCapacity {
				number := lap*priorityCapacity + i
				require.Equal(t, q.first+uint64(number), q.reader.PriorityOrdinal())
				d, err := q.reader.NextPriority()
				require.NoError(t, err)
				require.Equal(t, PrioritizedEventBuffer, d.Type)
				require.Equal(t, fmt.Sprintf("event %d", number), string(q.reader.EventBytes(d)))
			}
			require.ErrorIs(t, publish(), ErrQueueFull, "reading is not releasing")
			require.NoError(t, q.writer.AcceptPriorityReleased(q.reader.PriorityOrdinal()))
		}
		require.NoError(t, q.reader.Refresh())
		require.Equal(t, q.layout.QueueCapacity-1, q.reader.Queued(), "nothing of the other ring was read")
	})
}

func TestPositionCountsBytesAndElements(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		want := q.first
		for _, step := range []struct{ bytes, elements int }{{100, 1}, {0, 1}, {pairSegmentSize, 1}, {0, 0}, {1, 2}} {
			q.writer.Advance(step.bytes, step.elements, nil)
			want += uint64(step.bytes + step.elements)
			require.Equal(t, want, q.writer.Position())
			require.Equal(t, want, q.reader.Position())
		}
	})
}

func TestAdvanceRingsWhenItPassesTheWantedPosition(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		// Each step moves the position by ten.
		for _, row := range []struct {
			name string
			want int64 // from the position before the step
			ring bool
		}{
			{"all was read", 0, true},
			{"a byte more was read of the open buffer", 1, true},
			{"the last byte before the new position", 9, true},
			{"just the new position", 10, false},
			{"ahead by a threshold", 5000, false},
			{"stale", -1, false},
			{"long stale", -5000, false},
			{"half the stream behind", math.MinInt64 + 1, false},
		} {
			t.Run(row.name, func(t *testing.T) {
				q.words.Want.Store(q.writer.Position() + uint64(row.want))
				require.Equal(t, row.ring, q.writer.Advance(9, 1, q.words.Want))
				require.False(t, q.writer.Advance(0, 0, q.words.Want), "nothing moved")
			})
		}
		q.words.Want.Store(q.writer.Position())
		require.True(t, q.writer.Advance(9, 1, q.words.Want))
		require.False(t, q.writer.Advance(9, 1, q.words.Want), "it rings once for one wish")
		q.words.Want.Store(q.writer.Position())
		require.False(t, q.writer.Advance(9, 1, nil), "nobody is there to be rung for")
	})
}

func TestFlushRingsAWaitingConsumerOnceForTheSameContent(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		const threshold = 1000
		q.words.Want.Store(q.writer.Position() + threshold)
		require.False(t, q.writer.Flush(0, q.words.Want), "there is nothing to flush")
		require.True(t, q.writer.Flush(5, q.words.Want))
		require.Equal(t, q.first+5, q.reader.Flushed())
		require.False(t, q.writer.Flush(5, q.words.Want), "nothing was added")
		require.True(t, q.writer.Flush(6, q.words.Want))

		// The open buffer ends with 20 bytes, below the threshold.
		require.False(t, q.writer.Advance(20, 1, q.words.Want))
		require.Equal(t, q.first+6, q.reader.Flushed(), "what is finished is not flushed by itself")
		require.True(t, q.writer.Flush(0, q.words.Want))
		require.Equal(t, q.first+21, q.reader.Flushed())

		// A consumer that is reading does not need a ring: it will look.
		q.words.Want.Store(q.writer.Position() - 1)
		require.False(t, q.writer.Flush(7, q.words.Want))
		require.Equal(t, q.first+28, q.reader.Flushed())
		q.words.Want.Store(q.writer.Position())
		require.True(t, q.writer.Flush(8, q.words.Want))
		require.False(t, q.writer.Flush(9, nil))
		require.Equal(t, q.first+30, q.reader.Flushed())
	})
}

func TestPriorityEventRingsAlsoAConsumerThatABarrierBlocks(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		require.False(t, q.writer.NotifyPriority(nil))
		q.words.Want.Store(q.writer.Position())
		require.True(t, q.writer.NotifyPriority(q.words.Want))
		// A blocked consumer reads nothing and sleeps on, far behind.
		require.True(t, q.writer.Advance(100, 1, q.words.Want))
		require.True(t, q.writer.NotifyPriority(q.words.Want))
	})
}

func TestReleasedElementsReturnInOrder(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		// Data, event, data, data, event, and an open buffer.
		for i, typ := range []DataType{DataBuffer, EventBuffer, DataBuffer, DataBuffer, EventBuffer, DataBuffer} {
			if typ == EventBuffer {
				require.NoError(t, q.publishEvent(typ, nil))
			} else {
				require.NoError(t, q.writer.PublishBuffer(data(i)))
			}
		}
		var returned []uint64
		accept := func(n uint64, open bool) (int, error) {
			return q.writer.AcceptReleased(q.first+n, open,
				func(ordinal uint64) { returned = append(returned, ordinal-q.first) })
		}
		n, err := accept(0, true)
		require.NoError(t, err)
		require.Zero(t, n)
		n, err = accept(3, true)
		require.NoError(t, err)
		require.Equal(t, 3, n)
		require.Equal(t, []uint64{0, 2}, returned, "events have no segment to return")

		for _, cursor := range []uint64{2, 0, 6, 7, 1 << 40, math.MaxUint64} {
			_, err = accept(cursor, true)
			require.ErrorIs(t, err, ErrCorrupt, "cursor %d: the open buffer cannot be released, nor anything twice",
				int64(cursor))
		}
		require.Equal(t, 3, q.writer.Unreleased(), "nothing was accepted")
		require.Equal(t, []uint64{0, 2}, returned)

		n, err = accept(5, true)
		require.NoError(t, err)
		require.Equal(t, 2, n)
		n, err = accept(6, false)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.Equal(t, []uint64{0, 2, 3, 5}, returned)
		require.Zero(t, q.writer.Unreleased())
	})
}

func TestPriorityReleaseBeyondWhatWasPublishedIsRefused(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		for range 3 {
			require.NoError(t, q.publishEvent(PrioritizedEventBuffer, nil))
		}
		require.NoError(t, q.writer.AcceptPriorityReleased(q.first+2))
		for _, cursor := range []uint64{1, 0, 4, math.MaxUint64} {
			require.ErrorIs(t, q.writer.AcceptPriorityReleased(q.first+cursor), ErrCorrupt)
		}
		require.NoError(t, q.writer.AcceptPriorityReleased(q.first+3))
	})
}

func TestReleaseRingsWhenItPassesTheWantedNumber(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		for i := range 20 {
			require.NoError(t, q.writer.PublishBuffer(data(i)))
		}
		cross := func(from, to uint64) bool { return q.reader.CrossesWantReleased(q.first+from, q.first+to) }
		q.writer.ArmReleased(5)
		require.False(t, cross(0, 4))
		require.True(t, cross(4, 5))
		require.True(t, cross(0, 5))
		require.True(t, cross(3, 20))
		require.False(t, cross(5, 6), "it rang for that already")

		_, err := q.writer.AcceptReleased(q.first+5, false, func(uint64) {})
		require.NoError(t, err)
		require.False(t, cross(5, 20), "the wish is stale until it is made again")
		q.writer.ArmReleased(1)
		require.True(t, cross(5, 6))
	})
}

// spoil writes a field of the first descriptor of a ring.
func (q *queuePair) spoil(ring []byte, field int, value uint32) {
	slot := ring[(q.first&uint64(len(ring)/descriptorSize-1))*descriptorSize:]
	binary.LittleEndian.PutUint32(slot[field:], value)
}

func TestDescriptorOutsideTheLayoutIsRefusedByName(t *testing.T) {
	const most = math.MaxUint32
	for _, row := range []struct {
		element string
		name    string
		field   int
		values  []uint32 // stamps are from the right one
	}{
		{"data", "stamp", descStamp, []uint32{most, 1, 64, most - 63, 1 << 31}},
		{"data", "data type", descType, []uint32{uint32(NoDataType), uint32(RecoveryMetadata) + 1, 255,
			256 + uint32(DataBuffer), most}},
		{"data", "segment", descSegment, []uint32{pairSegments, 1 << 31, most}},
		{"data", "length", descLength, []uint32{pairSegmentSize + 1, 1<<31 - 1, 1 << 31, most}},
		{"event", "segment", descSegment, []uint32{eventSlots, eventSlots + 1, 1 << 31, most}},
		{"event", "length", descLength, []uint32{eventSlotSize + 1, 1 << 31, most}},
		{"priority", "stamp", descStamp, []uint32{most, 1, 8}},
		{"priority", "data type", descType, []uint32{uint32(DataBuffer), uint32(DataBufferWithClearEnd), 0, 99}},
		{"priority", "segment", descSegment, []uint32{eventSlots, most}},
		{"priority", "length", descLength, []uint32{eventSlotSize + 1, most}},
	} {
		t.Run(row.element+" "+row.name, func(t *testing.T) {
			overQueues(t, func(t *testing.T, q *queuePair) {
				ring, read := q.writer.ring, q.reader.Peek
				switch row.element {
				case "data":
					require.NoError(t, q.writer.PublishBuffer(data(0)))
				case "event":
					require.NoError(t, q.publishEvent(EventBuffer, []byte("event")))
				case "priority":
					require.NoError(t, q.publishEvent(PrioritizedEventBuffer, []byte("event")))
					ring, read = q.writer.priority, q.reader.NextPriority
				}
				require.NoError(t, q.reader.Refresh())
				_, err := q.reader.RefreshPriority()
				require.NoError(t, err)
				for _, value := range row.values {
					if row.field == descStamp {
						value += uint32(q.first + 1)
					}
					q.spoil(ring, row.field, value)
					_, err = read()
					require.ErrorIs(t, err, ErrCorrupt, "%d", value)
					require.ErrorContains(t, err, row.name+" is", "%d", value)
				}
				require.Equal(t, q.first, q.reader.Next())
				require.Equal(t, q.first, q.reader.PriorityOrdinal(), "a refused element is not taken")
			})
		})
	}
}

func TestPublishedCursorThatCannotBeIsRefused(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		capacity := uint64(q.layout.QueueCapacity)
		for i := range 10 {
			require.NoError(t, q.writer.PublishBuffer(data(i)))
			require.NoError(t, q.publishEvent(PrioritizedEventBuffer, nil))
			if i == priorityCapacity-1 {
				break
			}
		}
		for i := range 3 {
			q.reads(t, data(i))
		}
		n, err := q.reader.RefreshPriority()
		require.NoError(t, err)
		require.Equal(t, priorityCapacity, n)
		for _, cursor := range []uint64{0, 2, 7, 3 + capacity + 1, 1 << 40, 1 << 63, math.MaxUint64} {
			q.writer.published.Store(q.first + cursor)
			require.ErrorIs(t, q.reader.Refresh(), ErrCorrupt, "cursor %d", int64(cursor))
			require.Equal(t, 5, q.reader.Queued(), "what was seen before stays")
		}
		for _, cursor := range []uint64{0, 7, 9, 1 << 63, math.MaxUint64} {
			q.writer.priorityPublished.Store(q.first + cursor)
			_, err := q.reader.RefreshPriority()
			require.ErrorIs(t, err, ErrCorrupt, "cursor %d", int64(cursor))
		}
		q.writer.published.Store(q.first + 3 + capacity)
		require.NoError(t, q.reader.Refresh())
		// Slots of it were never written: their stamps say so.
		for range 5 {
			q.reader.Advance()
		}
		_, err = q.reader.Peek()
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "stamp")
	})
}

func TestElementOfAnEarlierLapIsRefused(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		n := 0
		for range q.layout.QueueCapacity {
			require.NoError(t, q.writer.PublishBuffer(data(n)))
			q.reads(t, data(n))
			q.release(t)
			n++
		}
		// Published without being written: the slot holds the element of a lap ago.
		q.writer.published.Store(q.first + uint64(n) + 1)
		require.NoError(t, q.reader.Refresh())
		_, err := q.reader.Peek()
		require.ErrorIs(t, err, ErrCorrupt)
		require.ErrorContains(t, err, "stamp")
	})
}
