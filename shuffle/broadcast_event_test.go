package shuffle_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/linktest"
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
		write  func(t *testing.T, p *shuffle.ResultPartition)
		used   int
		queued []int
	}{
		{"unicast", func(t *testing.T, p *shuffle.ResultPartition) {
			for i, n := range payloads {
				emit(t, p, n, i)
			}
		}, 4, []int{2, 3, 2, 1}},
		{"broadcast", func(t *testing.T, p *shuffle.ResultPartition) {
			for _, n := range payloads {
				broadcast(t, p, n)
			}
		}, 3, []int{4, 4, 4, 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 4, Segments: 8, SegmentSize: 32})
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
					require.NoError(t, s.p.BroadcastEvent(canceled(), newBarrier(row.typ)))
				}
				require.ErrorIs(t, s.p.BroadcastEvent(canceled(), newBarrier(row.typ)), context.Canceled)
				require.Positive(t, s.p.BackPressured())

				held := hold(t, s.c.SubpartitionView)
				require.ErrorIs(t, s.p.BroadcastEvent(canceled(), newBarrier(row.typ)), context.Canceled, "read and not released")
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

func TestEventThatReachesOnlySomeEndsThePartition(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 4, SegmentSize: 64})
	p := link.Partition
	first, second := link.View(0), link.View(1)
	for range eventSlots {
		sendEvent(t, p, shuffle.CustomEvent{Name: "e"})
	}
	drain(t, second)
	require.ErrorIs(t, p.BroadcastEvent(canceled(), shuffle.CustomEvent{Name: "e"}), context.Canceled)
	require.Equal(t, nothing, poll(t, second), "nobody got it")
	drain(t, first)
	for range eventSlots {
		sendEvent(t, p, shuffle.CustomEvent{Name: "e"})
	}
	drain(t, first)
	err := p.BroadcastEvent(canceled(), shuffle.CustomEvent{Name: "e"})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "subpartition 1")
	require.Equal(t, err, p.EmitRecord(context.Background(), []byte("x"), 0), "one got it and the other did not")
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
			require.NoError(t, p.BroadcastEvent(canceled(), newBarrier(event)))
			require.NoError(t, p.BroadcastEvent(canceled(), newBarrier(priorityEvent)))
			require.NoError(t, p.EmitRecord(canceled(), make([]byte, 100), 0))
			require.NoError(t, p.BroadcastRecord(canceled(), make([]byte, 100)))
		}
		require.NoError(t, p.Finish(canceled()))
		require.Zero(t, link.Pool.Used())
		require.Zero(t, p.BackPressured())
	})
}

// Slots come back in order, whatever the order of the releases.
func TestHeldPriorityEventIsNotOverwritten(t *testing.T) {
	s := newStream(t, linktest.Heap, 4, 64)
	s.event(priorityEvent)
	held := hold(t, s.c.SubpartitionView)
	content := string(held.Bytes())
	sent := 1
	for ; s.p.BroadcastEvent(canceled(), shuffle.CustomEvent{Name: "another", Priority: true}) == nil; sent++ {
		s.poll()
	}
	require.Equal(t, prioritySlots, sent)
	require.Equal(t, content, string(held.Bytes()))
	require.NoError(t, held.Release())
	for range prioritySlots {
		require.NoError(t, s.p.BroadcastEvent(canceled(), newBarrier(priorityEvent)))
	}
}
