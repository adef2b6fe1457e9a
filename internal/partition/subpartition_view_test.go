package partition_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

const (
	none = memseg.NoDataType
	data = memseg.DataBuffer
)

func TestPollHandsOut(t *testing.T) {
	eventSize := sizeOf(t, newBarrier(event))
	const full = 2048
	for _, row := range []struct {
		name string
		do   func(s *stream)
		want []polled
	}{
		{"nothing of an empty stream", func(*stream) {}, nil},
		{"nothing of an empty buffer", func(s *stream) { s.write(0) }, nil},
		{"nothing of an empty buffer that is finished", func(s *stream) { s.write(0); s.next(0) }, nil},
		{"part of an open buffer that was never flushed", func(s *stream) { s.write(1024) },
			[]polled{{1024, data}}},
		{"a finished buffer and part of an open one", func(s *stream) { s.next(1025); s.next(1024) },
			[]polled{{1025, data}, {1024, data}}},
		{"the same, flushed", func(s *stream) { s.next(1025); s.next(1024); s.flush() },
			[]polled{{1025, data}, {1024, data}}},
		{"flushed before there was anything", func(s *stream) { s.flush(); s.next(1025); s.next(1024) },
			[]polled{{1025, data}, {1024, data}}},
		{"what lies behind empty buffers", func(s *stream) { s.next(0); s.next(0); s.next(0); s.next(1024) },
			[]polled{{1024, data}}},
		{"what lies between empty buffers", func(s *stream) { s.next(0); s.next(1); s.next(0); s.next(2); s.flush() },
			[]polled{{1, data}, {2, data}}},
		{"full buffers", func(s *stream) { s.write(full); s.write(full) },
			[]polled{{full, data}, {full, data}}},
		{"data, event, data", func(s *stream) { s.write(full); s.event(event); s.write(full) },
			[]polled{{full, data}, {eventSize, event}, {full, data}}},
		{"a priority event before what was queued", func(s *stream) {
			s.next(1)
			s.next(2)
			s.event(event)
			s.next(4)
			s.event(priorityEvent)
		}, []polled{
			{eventSize, priorityEvent}, {1, data}, {2, data}, {eventSize, event}, {4, data},
		}},
		{"a priority event of an empty stream", func(s *stream) { s.event(priorityEvent); s.next(1); s.next(2) },
			[]polled{{eventSize, priorityEvent}, {1, data}, {2, data}}},
		{"priority events in their order", func(s *stream) {
			sendEvent(s.t, s.p, newBarrier(priorityEvent))
			sendEvent(s.t, s.p, barrier{shuffle.CustomEvent{Name: "longer barrier"}, priorityEvent})
			s.write(full)
		}, []polled{{eventSize, priorityEvent}, {eventSize + 7, priorityEvent}, {full, data}}},
		{"the end", func(s *stream) { s.write(10); s.finish() },
			[]polled{{10, data}, {4, memseg.EndOfPartition}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				s := newStream(t, memory, 8, full)
				row.do(s)
				for i, want := range row.want {
					require.Equal(t, want, s.poll(), "poll %d", i)
				}
				require.Equal(t, nothing, s.poll())
			})
		})
	}
}

func TestIsAvailable(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(s *stream)
		want bool
	}{
		{"an empty stream", func(*stream) {}, false},
		{"an empty stream that was polled", func(s *stream) { s.poll() }, false},
		{"an open buffer", func(s *stream) { s.write(10) }, false},
		{"an open buffer, flushed", func(s *stream) { s.write(10); s.flush() }, true},
		{"what was flushed was read", func(s *stream) { s.write(10); s.flush(); s.poll() }, false},
		{"more than was flushed", func(s *stream) { s.write(10); s.flush(); s.poll(); s.write(10) }, false},
		{"a finished buffer", func(s *stream) { s.write(64) }, true},
		{"half of a buffer was read, then it was finished", func(s *stream) { s.write(10); s.poll(); s.write(54) },
			true},
		{"an event", func(s *stream) { s.event(event) }, true},
		{"a priority event", func(s *stream) { s.event(priorityEvent) }, true},
		{"the end", func(s *stream) { s.finish() }, true},
		{"the end was read", func(s *stream) { s.finish(); s.poll() }, false},
		{"behind a barrier", func(s *stream) { s.event(alignedEvent); s.write(64); s.flush(); s.poll() }, false},
		{"a priority event behind a barrier",
			func(s *stream) { s.event(alignedEvent); s.poll(); s.event(priorityEvent) }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStream(t, linktest.Heap, 8, 64)
			row.do(s)
			require.Equal(t, row.want, s.c.IsAvailableBeyond(0))
		})
	}
}

func TestPartsOfABufferAddUp(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 3, 64)
		var read []byte
		for i := range 64 {
			s.write(1)
			content, typ := take(t, s.c.SubpartitionView)
			require.Equal(t, data, typ)
			read = append(read, content...)
			s.p.Reclaim()
			if i < 63 {
				require.Equal(t, 1, s.Pool.Used())
			}
		}
		require.Len(t, read, 64)
		require.Equal(t, nothing, s.poll())
		s.p.Reclaim()
		require.Zero(t, s.Pool.Used())
	})
}

func TestEndOfPartitionIsTheLastElement(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		require.False(t, s.c.Ended())
		s.write(10)
		s.finish()
		s.poll()
		require.False(t, s.c.Ended())
		_, typ := take(t, s.c.SubpartitionView)
		require.Equal(t, memseg.EndOfPartition, typ)
		require.True(t, s.c.Ended())
		require.Equal(t, nothing, s.poll())
		s.p.Reclaim()
		require.Zero(t, s.Pool.Used())
		require.Zero(t, s.p.Subpartition(0).QueuedBuffers())
	})
}

func TestSecondConsumerIsRefused(t *testing.T) {
	for _, row := range []struct {
		name   string
		detach func(p *partition.ResultPartition)
	}{
		{"while the first reads", func(*partition.ResultPartition) {}},
		{"after the first has read to the end", func(p *partition.ResultPartition) { p.DetachConsumer(0, true, "") }},
		{"after the first was lost", func(p *partition.ResultPartition) { p.DetachConsumer(0, false, "gone") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{
				Memory: linktest.Heap, Subpartitions: 2, Segments: 4, SegmentSize: 64,
				OnLost: shuffle.DiscardOnConsumerLost,
			})
			link.Consumer(0)
			row.detach(link.Partition)
			require.ErrorIs(t, link.TryAttach(0), shuffle.ErrAlreadyConsumed)
			require.NoError(t, link.TryAttach(1), "the other one is free")
			require.ErrorIs(t, link.TryAttach(2), shuffle.ErrProtocol, "there is no such one")
		})
	}
}

func TestViewOfASubpartitionThatDoesNotExist(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 4, SegmentSize: 64})
	bell := memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(2)))
	for _, sub := range []int{-1, 2, math.MaxInt} {
		_, err := partition.NewSubpartitionView(link.Region(), link.Layout, bell, sub, memseg.ChannelWords{}, nil)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	}
	_, err := partition.NewConsumerLink(nil, memseg.GateLayout{Channels: 3}, nil, 3, nil)
	require.ErrorIs(t, err, shuffle.ErrProtocol)
}

func TestBuffersAreReleasedInOrder(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		for range 4 {
			s.write(64)
		}
		a, b, c := hold(t, s.c.SubpartitionView), hold(t, s.c.SubpartitionView), hold(t, s.c.SubpartitionView)
		used := func() int { s.p.Reclaim(); return s.Pool.Used() }
		require.NoError(t, b.Release())
		require.Equal(t, 4, used(), "the first one holds the cursor back")
		require.NoError(t, c.Release())
		require.Equal(t, 4, used())
		require.NoError(t, a.Release())
		require.Equal(t, 1, used(), "one was not read")
	})
}

func TestRetainedBufferIsNotOverwritten(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 4, 16)
		s.write(16)
		held := hold(t, s.c.SubpartitionView)
		require.NoError(t, held.Retain())
		require.NoError(t, held.Release())
		written := 0
		for s.p.EmitRecord(impatient(), []byte("overwritten?????"), 0) == nil {
			written++
		}
		require.Equal(t, 3, written, "the rest of the pool")
		require.Equal(t, make([]byte, 16), xor(held.Bytes(), 16))
		require.NoError(t, held.Release())
		require.NoError(t, s.p.EmitRecord(impatient(), []byte("now it is free!!"), 0))
	})
}

func xor(b []byte, with byte) []byte {
	out := make([]byte, len(b))
	for i := range b {
		out[i] = b[i] ^ with
	}
	return out
}

// What counts is what is kept, in whatever order it is released.
func TestTooManyBuffersHeld(t *testing.T) {
	for _, row := range []struct{ segments, subpartitions, limit int }{{3, 1, 1}, {4, 1, 2}, {16, 1, 8}, {16, 4, 2},
		{2008, 1000, 1}} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: row.subpartitions,
			Segments: row.segments, SegmentSize: 16})
		view := link.View(0)
		for range row.limit + 2 {
			emit(t, link.Partition, 16, 0)
		}
		var held []*memseg.Buffer
		for range row.limit + 1 { // the last one is the one that is read
			held = append(held, hold(t, view))
		}
		for range 3 { // nothing changes by asking
			_, err := view.Take(&memseg.Buffer{})
			require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
			require.ErrorContains(t, err, fmt.Sprintf("%d buffers are not released, want at most %d", row.limit+1,
				row.limit))
			require.ErrorContains(t, err, "subpartition 0 of partition "+link.Partition.ID().String())
		}
		require.NoError(t, held[row.limit].Release())
		require.Equal(t, 16, poll(t, view).size)
		for _, b := range held[:row.limit] {
			require.NoError(t, b.Release())
		}
	}
}

func TestOneBufferIsKeptWhileTheOthersOfThePoolAreRead(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 4, Segments: 16, SegmentSize: 16})
		view := link.View(0)
		for range 13 {
			emit(t, link.Partition, 16, 0)
		}
		kept := hold(t, view)
		for range 12 {
			require.Equal(t, 16, poll(t, view).size)
		}
		link.Partition.Reclaim()
		require.Equal(t, 13, link.Pool.Used(), "what follows is held back")
		require.NoError(t, view.CheckStuck(time.Now()), "and nobody waits for it")
		require.NoError(t, kept.Release())
		link.Partition.Reclaim()
		require.Zero(t, link.Pool.Used())
	})
}

// The cursor is one number: a producer that waits for what a kept buffer holds back
// would wait for ever, and its consumer for more.
func TestUserIsToldThatTheProducerWaitsForWhatItKeeps(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 4, 16)
		for range 4 {
			s.write(16)
		}
		kept := hold(t, s.c.SubpartitionView)
		for range 3 {
			require.Equal(t, 16, s.poll().size)
		}
		written := make(chan error)
		go func() { written <- s.p.EmitRecord(context.Background(), make([]byte, 16), 0) }()
		start := time.Now()
		require.True(t, s.c.HoldsBack())
		var err error
		require.Eventually(t, func() bool { // while the writer sleeps, which it does again and again
			start = start.Add(time.Hour)
			err = s.c.CheckStuck(start)
			return errors.Is(err, shuffle.ErrTooManyBuffersHeld)
		}, wait, tick)
		require.ErrorContains(t, err,
			"1 are kept, the oldest is element 0, and 3 of 4 elements read since then were released")
		require.NoError(t, kept.Release())
		require.NoError(t, <-written)
		require.False(t, s.c.HoldsBack())
		require.NoError(t, s.c.CheckStuck(start.Add(time.Hour)))
		require.Equal(t, 16, s.poll().size)
	})
}

// What was released before a kept buffer is less than the writer asked for, and enough.
func TestWriterGoesOnWithWhatWasReleasedBeforeAKeptBuffer(t *testing.T) {
	partition.SleepLong(t)
	s := newStream(t, linktest.Heap, 16, 16)
	for range 16 {
		s.write(16)
	}
	written := make(chan error)
	go func() { written <- s.p.EmitRecord(context.Background(), make([]byte, 16), 0) }()
	require.Eventually(t, s.IsParked, wait, tick)
	for range 4 {
		require.Equal(t, 16, s.poll().size)
	}
	kept := hold(t, s.c.SubpartitionView)
	for range 11 {
		require.Equal(t, 16, s.poll().size)
	}
	require.True(t, s.IsParked(), "it was not rung")
	require.NoError(t, s.c.CheckStuck(time.Now()))
	require.NoError(t, <-written)
	require.Equal(t, 16, s.poll().size)
	require.NoError(t, kept.Release())
}

// A producer may finish nothing but empty buffers: each poll passes over some.
func TestPollPassesOverABoundedNumberOfEmptyBuffers(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 200, SegmentSize: 16})
	view := link.View(0)
	q := link.Queue(0)
	for i := range 150 {
		setMarker(link.Region(), &link.Layout, i, math.MinInt32) // finished and empty
		require.NoError(t, q.PublishBuffer(memseg.Descriptor{Type: memseg.DataBuffer, Segment: i}))
		q.Advance(0, 1, nil)
	}
	for _, want := range []bool{true, true, false} {
		require.Equal(t, nothing, poll(t, view))
		require.Equal(t, want, view.HasMore())
	}
}

func TestUnfinishedBufferDoesNotCountAsHeldTwice(t *testing.T) {
	s := newStream(t, linktest.Heap, 2, 64)
	s.write(10)
	a := hold(t, s.c.SubpartitionView)
	s.write(10)
	b := hold(t, s.c.SubpartitionView)
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
	s.write(44)
	require.Equal(t, 44, s.poll().size)
	s.p.Reclaim()
	require.Zero(t, s.Pool.Used())
}

func TestClosedViewRefusesEverything(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		s.event(alignedEvent)
		s.write(64)
		s.poll()
		s.c.Close(false) // unmaps its memory
		s.c.Close(false)
		_, err := s.c.Take(&memseg.Buffer{})
		require.ErrorIs(t, err, shuffle.ErrClosed)
		err = s.c.ResumeConsumption()
		require.ErrorIs(t, err, shuffle.ErrClosed)
		require.False(t, s.c.IsAvailableBeyond(0))
		require.True(t, s.c.Arm(0))
	})
}

func TestBuffersOfAClosedViewStayReadable(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(s *stream) []*memseg.Buffer
	}{
		{"a finished buffer", func(s *stream) []*memseg.Buffer {
			s.write(64)
			return []*memseg.Buffer{hold(s.t, s.c.SubpartitionView)}
		}},
		{"two, the second part of an open one", func(s *stream) []*memseg.Buffer {
			s.write(64 + 10)
			return []*memseg.Buffer{hold(s.t, s.c.SubpartitionView), hold(s.t, s.c.SubpartitionView)}
		}},
		{"two parts of an open buffer", func(s *stream) []*memseg.Buffer {
			s.write(10)
			a := hold(s.t, s.c.SubpartitionView)
			s.write(20)
			return []*memseg.Buffer{a, hold(s.t, s.c.SubpartitionView)}
		}},
		{"an event", func(s *stream) []*memseg.Buffer {
			s.event(event)
			return []*memseg.Buffer{hold(s.t, s.c.SubpartitionView)}
		}},
		{"a priority event", func(s *stream) []*memseg.Buffer {
			s.event(priorityEvent)
			return []*memseg.Buffer{hold(s.t, s.c.SubpartitionView)}
		}},
		{"one of each", func(s *stream) []*memseg.Buffer {
			s.write(64)
			s.event(event)
			s.event(priorityEvent)
			s.write(10)
			var held []*memseg.Buffer
			for range 4 {
				held = append(held, hold(s.t, s.c.SubpartitionView))
			}
			return held
		}},
	} {
		for _, backwards := range []bool{false, true} {
			t.Run(row.name, func(t *testing.T) {
				before := memseg.LiveMappings()
				s := newStream(t, linktest.Mapped, 8, 64)
				held := row.do(s)
				var contents [][]byte
				for _, b := range held {
					contents = append(contents, append([]byte(nil), b.Bytes()...))
				}
				withView := memseg.LiveMappings()
				s.c.Close(false)
				require.NoError(t, s.p.Close())
				// The view keeps its partition, its doorbell and the gate's words.
				producer := int64(4)
				require.Equal(t, withView-producer, memseg.LiveMappings())
				require.Greater(t, withView-producer, before)
				for i := range held {
					if backwards {
						i = len(held) - 1 - i
					}
					require.Equal(t, contents[i], held[i].Bytes())
					require.Equal(t, withView-producer, memseg.LiveMappings())
					require.NoError(t, held[i].Release())
				}
				require.Equal(t, withView-producer-2, memseg.LiveMappings(),
					"the last release unmaps; the gate is still open")
			})
		}
	}
}
