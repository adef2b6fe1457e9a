package partition_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestEventReachesEverySubpartitionWithoutASegment(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 4, Segments: 8, SegmentSize: 32})
		want := shuffle.CustomEvent{Name: "checkpoint", Body: []byte{7}}
		sendEvent(t, link.Partition, want)
		require.Zero(t, link.Pool.Used())
		for i := range 4 {
			require.Equal(t, 1, link.Partition.Subpartition(i).QueuedBuffers())
			content, typ := take(t, link.View(i))
			require.Equal(t, event, typ)
			got, err := shuffle.DecodeEvent(content, typ)
			require.NoError(t, err)
			require.Equal(t, want, got)
		}
	})
}

func TestEventFinishesTheOpenBuffers(t *testing.T) {
	payloads := []int{16, 33, 28}
	for _, row := range []struct {
		name   string
		write  func(t *testing.T, p *partition.ResultPartition)
		used   int
		queued []int
	}{
		{"unicast", func(t *testing.T, p *partition.ResultPartition) {
			for i, n := range payloads {
				emit(t, p, n, i)
			}
		}, 4, []int{2, 3, 2, 1}},
		{"broadcast", func(t *testing.T, p *partition.ResultPartition) {
			for _, n := range payloads {
				broadcast(t, p, n)
			}
		}, 3, []int{4, 4, 4, 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 4, Segments: 8,
				SegmentSize: 32})
			row.write(t, link.Partition)
			sendEvent(t, link.Partition, shuffle.CustomEvent{Name: "e"})
			require.Equal(t, row.used, link.Pool.Used())
			for i, want := range row.queued {
				require.Equal(t, want, link.Partition.Subpartition(i).QueuedBuffers())
				published := link.ReadPublished(i)
				require.Equal(t, event, published[len(published)-1].Type)
				_, types := drain(t, link.View(i))
				require.Len(t, types, want)
			}
		})
	}
}

// One of the sixteen slots is kept for the end.
const eventSlots = 15

const prioritySlots = 8

func TestEventWaitsWhenItsSlotsAreUnread(t *testing.T) {
	for _, row := range []struct {
		typ   memseg.DataType
		slots int
	}{{event, eventSlots}, {priorityEvent, prioritySlots}} {
		t.Run(row.typ.String(), func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				s := newStream(t, memory, 4, 64)
				for range row.slots {
					require.NoError(t, s.p.BroadcastEvent(impatient(), newBarrier(row.typ)))
				}
				require.ErrorIs(t, s.p.BroadcastEvent(impatient(), newBarrier(row.typ)), context.Canceled)
				require.Positive(t, s.p.BackPressured())

				held := hold(t, s.c.SubpartitionView)
				require.ErrorIs(t, s.p.BroadcastEvent(impatient(), newBarrier(row.typ)), context.Canceled,
					"read and not released")
				sent := make(chan error)
				go func() { sent <- s.p.BroadcastEvent(context.Background(), newBarrier(row.typ)) }()
				require.NoError(t, held.Release())
				require.NoError(t, <-sent)
				s.finish() // never waits
				_, types := drain(t, s.c.SubpartitionView)
				require.Len(t, types, row.slots+1)
				require.Equal(t, memseg.EndOfPartition, types[row.slots])
			})
		})
	}
}

func TestEventReachesAllSubpartitionsOrNone(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for name, row := range map[string]struct {
			e     shuffle.CustomEvent
			slots int
		}{
			"in order": {shuffle.CustomEvent{Name: "e"}, eventSlots},
			"priority": {shuffle.CustomEvent{Name: "e", Priority: true}, prioritySlots},
		} {
			link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 3, Segments: 6, SegmentSize: 64})
			p := link.Partition
			views := []*partition.SubpartitionView{link.View(0), link.View(1), link.View(2)}
			for range row.slots {
				sendEvent(t, p, row.e)
			}
			drain(t, views[0])
			drain(t, views[2])
			err := p.BroadcastEvent(impatient(), row.e)
			require.ErrorIs(t, err, context.Canceled, name)
			require.ErrorContains(t, err,
				"room for an event in subpartition 1, whose event slots are taken, whose consumer has to read", name)
			require.Equal(t, nothing, poll(t, views[0]), "those before it have not got it")
			require.Equal(t, nothing, poll(t, views[2]), "nor those behind")

			emit(t, p, 8, 0) // the partition goes on
			drain(t, views[1])
			sendEvent(t, p, row.e)
			require.NoError(t, p.Finish(context.Background()))
			for i, v := range views {
				_, types := drain(t, v)
				require.Equal(t, memseg.EndOfPartition, types[len(types)-1])
				require.Len(t, types, 2+max(0, 1-i), "%s: event and end, and the record", name)
			}
		}
	})
}

func TestOnlyAnEventThatIsOneCanBeSent(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 64})
	p, view := link.Partition, link.View(0)
	for name, e := range map[string]shuffle.Event{
		"nil": nil, "nil pointer": (*shuffle.CustomEvent)(nil), "nil end": (*shuffle.EndOfPartition)(nil),
		"the end": shuffle.EndOfPartition{}, "the end in disguise": struct{ shuffle.EndOfPartition }{},
	} {
		require.ErrorIs(t, p.BroadcastEvent(context.Background(), e), shuffle.ErrInvalidArgument, name)
	}
	large := shuffle.CustomEvent{Body: make([]byte, memseg.EventSlotSize)}
	for _, e := range []shuffle.Event{large, &large, barrier{large, event}} {
		require.ErrorIs(t, p.BroadcastEvent(context.Background(), e), shuffle.ErrEventTooLarge)
	}
	sendEvent(t, p, &shuffle.CustomEvent{Name: "by pointer"})
	require.NoError(t, p.Finish(context.Background()))
	_, types := drain(t, view)
	require.Equal(t, []memseg.DataType{event, memseg.EndOfPartition}, types)
}

func TestPriorityEventsOvertake(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		s.write(64)
		s.write(10)
		first := hold(t, s.c.SubpartitionView)
		s.event(event)
		for i := range byte(20) { // past the wrap of the priority ring
			sendEvent(t, s.p, shuffle.CustomEvent{Name: "p", Body: []byte{i}, Priority: true})
			sendEvent(t, s.p, shuffle.CustomEvent{Name: "p", Body: []byte{i, i}, Priority: true})
			for n := 1; n <= 2; n++ {
				content, typ := take(t, s.c.SubpartitionView)
				require.Equal(t, priorityEvent, typ)
				got, err := shuffle.DecodeEvent(content, typ)
				require.NoError(t, err)
				require.Equal(t, []byte{i, i}[:n], got.(shuffle.CustomEvent).Body)
				require.True(t, got.(shuffle.CustomEvent).Priority)
			}
		}
		sizes, types := drain(t, s.c.SubpartitionView)
		require.Equal(t, []int{10}, sizes)
		require.Equal(t, []memseg.DataType{data, event}, types)
		require.NoError(t, first.Release())
	})
}

// What nobody reads holds neither slots nor segments.
func TestWriterNeverWaitsForADiscardedConsumer(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{
			Memory: memory, Subpartitions: 2, Segments: 3, SegmentSize: 64, OnLost: shuffle.DiscardOnConsumerLost,
		})
		p := link.Partition
		link.Consumer(0)
		link.Consumer(1)
		for range 8 {
			sendEvent(t, p, newBarrier(priorityEvent))
		}
		p.DetachConsumer(0, false, "gone")
		p.DetachConsumer(1, true, "")
		for range 100 {
			require.NoError(t, p.BroadcastEvent(impatient(), newBarrier(event)))
			require.NoError(t, p.BroadcastEvent(impatient(), newBarrier(priorityEvent)))
			require.NoError(t, p.EmitRecord(impatient(), make([]byte, 100), 0))
			require.NoError(t, p.BroadcastRecord(impatient(), make([]byte, 100)))
		}
		require.NoError(t, p.Finish(impatient()))
		require.Zero(t, link.Pool.Used())
		require.Zero(t, p.BackPressured())
	})
}

// Each of them leaves other priority events unread.
func TestDiscardedConsumersKeepNoEventSlots(t *testing.T) {
	const consumers = 4
	link := linktest.New(t, linktest.Config{
		Memory: linktest.Heap, Subpartitions: consumers, Segments: 8, SegmentSize: 64,
		OnLost: shuffle.DiscardOnConsumerLost,
	})
	p := link.Partition
	views := make([]*partition.SubpartitionView, consumers)
	for i := range views {
		views[i] = link.View(i)
	}
	for gone := range views {
		for range prioritySlots {
			require.NoError(t, p.BroadcastEvent(impatient(), newBarrier(priorityEvent)))
		}
		p.DetachConsumer(gone, false, "gone")
		for _, v := range views[gone+1:] {
			drain(t, v)
		}
	}
	for range eventSlots + prioritySlots {
		require.NoError(t, p.BroadcastEvent(impatient(), newBarrier(event)))
	}
	require.NoError(t, p.Finish(impatient()))
}

// Slots come back in order, whatever the order of the releases.
func TestHeldPriorityEventIsNotOverwritten(t *testing.T) {
	s := newStream(t, linktest.Heap, 4, 64)
	s.event(priorityEvent)
	held := hold(t, s.c.SubpartitionView)
	content := string(held.Bytes())
	sent := 1
	for ; s.p.BroadcastEvent(impatient(), shuffle.CustomEvent{Name: "another", Priority: true}) == nil; sent++ {
		s.poll()
	}
	require.Equal(t, prioritySlots, sent)
	require.Equal(t, content, string(held.Bytes()))
	require.NoError(t, held.Release())
	for range prioritySlots {
		require.NoError(t, s.p.BroadcastEvent(impatient(), newBarrier(priorityEvent)))
	}
}
