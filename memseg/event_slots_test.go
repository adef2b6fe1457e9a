package memseg

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A producer sends each event to all queues, one after the other. However far apart its
// consumers are, there is a slot for the next one, and none is used again too early.
func TestSharedSlotsAreEnoughHoweverFarApartConsumersAre(t *testing.T) {
	const queues = 5
	random := newRandom(t)
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		l := testLayout(t, queues, pairSegments, pairSegmentSize)
		region := newRegion(t, int(l.RegionSize()))
		events := NewEventSlots(region)
		var writers []*QueueWriter
		var readers []*QueueReader
		for i := range queues {
			writers = append(writers, NewQueueWriter(region, &l, i, events))
			readers = append(readers, NewQueueReader(region, &l, i))
		}
		names := [2][]string{}                 // of events, and of priority events
		var read, readPriority [queues]int     // how many of them
		reads := func(queue int, first bool) { // and releases
			r := readers[queue]
			if n, err := r.RefreshPriority(); err == nil && n > 0 && first {
				d, err := r.NextPriority()
				require.NoError(t, err)
				require.Equal(t, names[1][readPriority[queue]], string(r.EventBytes(d)))
				readPriority[queue]++
				require.NoError(t, writers[queue].AcceptPriorityReleased(r.PriorityOrdinal()))
				return
			}
			require.NoError(t, r.Refresh())
			if r.Queued() == 0 {
				return
			}
			d, err := r.Peek()
			require.NoError(t, err)
			require.Equal(t, names[0][read[queue]], string(r.EventBytes(d)))
			read[queue]++
			r.Advance()
			_, err = writers[queue].AcceptReleased(r.Next(), false, func(uint64) {})
			require.NoError(t, err)
		}
		send := func(typ DataType) {
			kind := 0
			if typ.HasPriority() {
				kind = 1
			}
			names[kind] = append(names[kind], fmt.Sprintf("%v %d", typ, len(names[kind])))
			e, err := events.Put([]byte(names[kind][len(names[kind])-1]))
			require.NoError(t, err, "there is a slot")
			for i, w := range writers {
				for publish := w.PublishEvent; ; reads(i, kind == 1) {
					if kind == 1 {
						publish = w.PublishPriorityEvent
					}
					if err := publish(typ, e); err == nil {
						break
					}
					require.NotEqual(t, EndOfPartition, typ, "which never waits")
				}
			}
			events.Release(e)
		}
		for range 3000 {
			switch random.IntN(8) {
			case 0, 1:
				send(EventBuffer)
			case 2:
				send(PrioritizedEventBuffer)
			default:
				reads(random.IntN(queues-1), random.IntN(2) == 0) // the last one reads when it must
			}
		}
		for range eventsPerQueue {
			if writers[queues-1].unreleasedEvents < eventsPerQueue-1 {
				send(EventBuffer)
			}
		}
		for writers[queues-1].nextPriority-writers[queues-1].releasedPriority < priorityCapacity {
			send(PrioritizedEventBuffer)
		}
		send(EndOfPartition)
		for i := range queues {
			for read[i] < len(names[0]) || readPriority[i] < len(names[1]) {
				reads(i, true)
			}
		}
		require.Equal(t, [eventSlots]int{}, events.uses, "all are free again")
	})
}

func TestSlotIsFreeWhenNobodyNamesIt(t *testing.T) {
	overQueues(t, func(t *testing.T, q *queuePair) {
		e, err := q.events.Put([]byte("event"))
		require.NoError(t, err)
		require.NoError(t, q.writer.PublishEvent(EventBuffer, e))
		require.NoError(t, q.writer.PublishPriorityEvent(PrioritizedEventBuffer, e))
		require.Equal(t, 3, q.events.uses[e.slot])
		q.events.Release(e)
		_, err = q.writer.AcceptReleased(q.first+1, false, nil)
		require.NoError(t, err)
		require.Equal(t, 1, q.events.uses[e.slot])
		require.NoError(t, q.writer.AcceptPriorityReleased(q.first+1))
		require.Zero(t, q.events.uses[e.slot])
		for range eventSlots {
			_, err = q.events.Put(nil)
			require.NoError(t, err)
		}
		_, err = q.events.Put(nil)
		require.ErrorIs(t, err, ErrQueueFull)
	})
}
