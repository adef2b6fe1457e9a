package partition_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

const (
	event         = memseg.EventBuffer
	priorityEvent = memseg.PrioritizedEventBuffer
	alignedEvent  = memseg.AlignedCheckpointBarrier
)

// The consumer is armed at the tail of an empty stream and polls nothing, unless
// a row says otherwise.
func TestArmedConsumerIsRung(t *testing.T) {
	const full = 64
	for _, row := range []struct {
		name string
		do   func(s *stream)
		want int
	}{
		{"not for an unfinished buffer", func(s *stream) { s.write(10) }, 0},
		{"not for an empty unfinished buffer", func(s *stream) { s.write(0) }, 0},
		{"when a buffer is finished, though it is the only one", func(s *stream) { s.write(full) }, 1},
		{"when a second buffer finishes the first", func(s *stream) { s.write(10); s.next(10) }, 1},
		{"when an empty buffer is finished", func(s *stream) { s.write(0); s.next(0) }, 1},
		{"once for many buffers", func(s *stream) {
			for range 8 {
				s.write(full)
			}
		}, 1},
		{"once for many small finished buffers", func(s *stream) {
			for range 8 {
				s.next(3)
			}
		}, 1},
		{"for an event", func(s *stream) { s.event(event) }, 1},
		{"once for an event and the data that it finishes", func(s *stream) { s.write(10); s.event(event) }, 1},
		{"once for many events", func(s *stream) { s.event(event); s.event(event); s.event(event) }, 1},
		{"for each priority event", func(s *stream) { s.event(priorityEvent); s.event(priorityEvent) }, 2},
		{"for a priority event though it was rung for data", func(s *stream) { s.write(full); s.event(priorityEvent) },
			2},
		{"for the end", func(s *stream) { s.finish() }, 1},
		{"for the end behind an open buffer", func(s *stream) { s.write(10); s.flush(); s.finish() }, 2},

		{"not for a flush of nothing", func(s *stream) { s.flush(); s.flush() }, 0},
		{"not for a flush of an empty buffer", func(s *stream) { s.write(0); s.flush() }, 0},
		{"for a flush of new bytes", func(s *stream) { s.write(10); s.flush() }, 1},
		{"not for a second flush without new bytes", func(s *stream) { s.write(10); s.flush(); s.flush() }, 1},
		{"again for a flush with new bytes that it has not read",
			func(s *stream) { s.write(10); s.flush(); s.write(10); s.flush() }, 2},
		{"not for a flush behind a finished buffer", func(s *stream) { s.write(full); s.write(10); s.flush() }, 1},
		{"by a flush of one subpartition", func(s *stream) {
			s.write(10)
			require.NoError(s.t, s.p.Flush(0))
		}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				s := newStream(t, memory, 32, full)
				s.arm(0)
				row.do(s)
				require.Equal(t, row.want, s.c.Rings())
			})
		})
	}
}

// A reader that never polls has not armed either.
func TestConsumerThatNeverPollsIsNotRungAgain(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		for range 7 {
			s.next(10)
			s.flush()
			s.event(event)
		}
		require.Zero(t, s.c.Rings())
		require.ErrorIs(t, s.p.EmitRecord(impatient(), make([]byte, 128), 0), context.Canceled)
		require.Equal(t, 8, s.Pool.Used(), "memory is bounded by the pool")
	})
}

func TestAttachingRingsOnce(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4, SegmentSize: 64})
	emit(t, link.Partition, 64, 0)
	gate := linktest.NewGate(t, linktest.Heap, 1)
	before := gate.Rings()
	gate.Attach(0, link, 0)
	// One ring of the producer, and one of the gate to itself for the view.
	require.EqualValues(t, 2, gate.Rings()-before)
}

func TestConsumerArmedAheadIsRung(t *testing.T) {
	const full = 64 // a finished buffer moves the position by 65
	for _, row := range []struct {
		name      string
		threshold int
		do        func(s *stream)
		want      int
	}{
		{"not up to the threshold", 195, func(s *stream) { s.write(3 * full) }, 0},
		{"once beyond it", 195, func(s *stream) { s.write(8 * full) }, 1},
		{"by the buffer that passes it", 194, func(s *stream) { s.write(3 * full) }, 1},
		{"at once by a flush", 195, func(s *stream) { s.write(full); s.flush() }, 1},
		{"at once by a flush of a part", 195, func(s *stream) { s.write(1); s.flush() }, 1},
		{"at once by an event", 195, func(s *stream) { s.event(event) }, 1},
		{"at once by a priority event", 195, func(s *stream) { s.event(priorityEvent) }, 1},
		{"at once by the end", 195, func(s *stream) { s.finish() }, 1},
		{"not before half of the pool", 1 << 30, func(s *stream) { s.write(15 * full) }, 0},
		{"beyond half of the pool at the latest", 1 << 30, func(s *stream) { s.write(16 * full) }, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				s := newStream(t, memory, 32, full)
				s.arm(row.threshold)
				row.do(s)
				require.Equal(t, row.want, s.c.Rings())
			})
		})
	}
}

func TestArmReportsWhatCameMeanwhile(t *testing.T) {
	for _, row := range []struct {
		name      string
		threshold int
		do        func(s *stream)
		idle      bool
	}{
		{"nothing", 0, func(*stream) {}, true},
		{"committed bytes of the open buffer do not count", 0, func(s *stream) { s.write(10) }, true},
		{"a finished buffer", 0, func(s *stream) { s.write(64) }, false},
		{"a finished buffer below the threshold", 100, func(s *stream) { s.write(64) }, true},
		{"a finished buffer beyond the threshold", 64, func(s *stream) { s.write(64) }, false},
		{"a flush below the threshold", 100, func(s *stream) { s.write(10); s.flush() }, false},
		{"an event", 100, func(s *stream) { s.event(event) }, false},
		{"a priority event", 100, func(s *stream) { s.event(priorityEvent) }, false},
		{"the end", 100, func(s *stream) { s.finish() }, false},
		{"a flush that was read", 0, func(s *stream) { s.write(10); s.flush(); s.poll() }, true},
		{"the end that was read", 0, func(s *stream) { s.finish(); s.poll() }, true},
		{"a barrier that was read, with data behind it", 0,
			func(s *stream) { s.event(alignedEvent); s.write(64); s.poll() }, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStream(t, linktest.Heap, 32, 64)
			row.do(s)
			require.Equal(t, row.idle, s.c.Arm(row.threshold))
		})
	}
}

// A consumer of a busy stream leaves what its producer has just written.
func TestConsumerMayLeaveFinishedDataUnread(t *testing.T) {
	const full, leave = 64, 200 // a finished buffer moves the position by 65
	for _, row := range []struct {
		name  string
		leave int
		do    func(s *stream)
		want  bool
		all   bool
	}{
		{"nothing", leave, func(*stream) {}, false, false},
		{"less than it leaves", leave, func(s *stream) { s.write(3 * full) }, false, true},
		{"more than it leaves", leave, func(s *stream) { s.write(4 * full) }, true, true},
		{"as much, flushed", leave, func(s *stream) { s.write(full); s.flush() }, true, true},
		{"as much, then an event", leave, func(s *stream) { s.write(full); s.event(event) }, true, true},
		{"a priority event", leave, func(s *stream) { s.event(priorityEvent) }, true, true},
		{"the end", leave, func(s *stream) { s.write(full); s.finish() }, true, true},
		{"the rest of what it knows of", leave, func(s *stream) { s.write(3 * full); s.poll() }, true, true},
		{"the last that it knows of", leave, func(s *stream) { s.write(2 * full); s.poll() }, false, true},
		{"a quarter of the pool", 1 << 30, func(s *stream) { s.write(7 * full) }, false, true},
		{"more than a quarter of the pool", 1 << 30, func(s *stream) { s.write(8 * full) }, true, true},
		{"data behind a barrier", 0, func(s *stream) { s.event(alignedEvent); s.write(full); s.poll() }, false, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newStream(t, linktest.Heap, 32, full)
			row.do(s)
			require.Equal(t, row.want, s.c.IsAvailableBeyond(row.leave))
			require.Equal(t, row.all, s.c.IsAvailableBeyond(0))
		})
	}
}

// It would not be rung for a position that it has passed long ago.
func TestConsumerThatABarrierBlocksIsRungForPriorityEvents(t *testing.T) {
	s := newStream(t, linktest.Heap, 8, 64)
	s.event(alignedEvent)
	s.write(64)
	s.poll()
	s.arm(0)
	before := s.c.Rings()
	s.event(priorityEvent)
	require.Equal(t, before+1, s.c.Rings())
	require.False(t, s.c.Arm(0))
	_, typ := take(t, s.c.SubpartitionView)
	require.Equal(t, priorityEvent, typ)
}

// Whoever arms again after each poll is rung again for what comes then.
func TestEachArmIsGoodForOneRing(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		for i := range 200 { // past the wrap of the cursors
			s.arm(0)
			s.write(64)
			s.write(64)
			require.Equal(t, i+1, s.c.Rings())
			require.Equal(t, 64, s.poll().size)
			require.Equal(t, 64, s.poll().size)
			require.Equal(t, nothing, s.poll())
		}
	})
}

// Only the consumers with news are rung.
func TestFlushRingsOnlyWhereThereIsNews(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 3, Segments: 8, SegmentSize: 64})
	var consumers []*linktest.Consumer
	for i := range 3 {
		consumers = append(consumers, link.Consumer(i))
		require.True(t, consumers[i].Arm(0))
	}
	rings := func() []int {
		return []int{consumers[0].Rings(), consumers[1].Rings(), consumers[2].Rings()}
	}
	emit(t, link.Partition, 10, 1)
	require.NoError(t, link.Partition.Flush(0))
	require.Equal(t, []int{0, 0, 0}, rings())
	require.NoError(t, link.Partition.FlushAll())
	require.Equal(t, []int{0, 1, 0}, rings())
	broadcast(t, link.Partition, 10)
	require.NoError(t, link.Partition.Flush(2))
	require.Equal(t, []int{0, 2, 1}, rings(), "broadcasting has finished the buffer of 1")
	require.NoError(t, link.Partition.FlushAll())
	require.Equal(t, []int{1, 2, 1}, rings(), "1 was rung for its finished buffer and is behind it")
}

func TestEventsAreSentAsTheyAreDecoded(t *testing.T) {
	s := newStream(t, linktest.Heap, 4, 64)
	want := shuffle.CustomEvent{Name: "snapshot", Body: []byte{1, 2, 3}}
	sendEvent(t, s.p, want)
	content, typ := take(t, s.c.SubpartitionView)
	require.Equal(t, event, typ)
	got, err := shuffle.DecodeEvent(content, typ)
	require.NoError(t, err)
	require.Equal(t, want, got)
}
