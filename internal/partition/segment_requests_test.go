package partition_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

func TestAvailability(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 2, 64)
		require.True(t, s.p.IsAvailable())
		s.write(64)
		require.True(t, s.p.IsAvailable())
		s.write(64)
		require.False(t, s.p.IsAvailable())
		held := hold(t, s.c.SubpartitionView)
		require.False(t, s.p.IsAvailable())
		require.NoError(t, held.Release())
		require.True(t, s.p.IsAvailable(), "nobody needs to write to find out")
	})
}

func TestBackPressureIsCountedAndHonoursTheContext(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 1, SegmentSize: 64})
		p := link.Partition
		view := link.View(0)
		emit(t, p, 64, 0)
		held := hold(t, view)
		require.Zero(t, p.BackPressured())

		ctx, cancel := context.WithCancel(context.Background())
		blocked := make(chan error)
		go func() { blocked <- p.EmitRecord(ctx, []byte("second"), 0) }()
		require.Eventually(t, link.IsParked, wait, tick, "the writer sleeps")
		words := memseg.NewPartitionWords(link.Region())
		for range 2 { // it grows, and grows on
			before := p.BackPressured()
			require.Eventually(t, func() bool {
				seen, waiting := memseg.ReadStopwatch(words.BackPressuredNs, time.Hour)
				return waiting && seen > before && p.BackPressured() > seen
			}, wait, tick, "it counts while it lasts")
		}
		cancel()
		require.ErrorIs(t, <-blocked, context.Canceled)
		waited := p.BackPressured()
		require.Positive(t, waited)
		require.EqualValues(t, waited, words.BackPressuredNs.Load(), "operators see it")

		go func() { blocked <- p.EmitRecord(context.Background(), []byte("second"), 0) }()
		require.Eventually(t, link.IsParked, wait, tick)
		require.NoError(t, held.Release())
		require.NoError(t, <-blocked)
		require.Greater(t, p.BackPressured(), waited)
		content, _ := take(t, view)
		require.Equal(t, "second", string(content))
	})
}

// A writer waits for half of what is queued, but for one less than what the
// consumer's user may keep leaves of it: the last buffer might be open.
func TestWaitingWriterIsRungForHalfOfWhatIsQueued(t *testing.T) {
	for _, row := range []struct{ queued, half int }{{12, 5}, {8, 3}, {7, 3}, {2, 1}, {1, 1}} {
		s := newStream(t, linktest.Heap, row.queued, 64)
		for range row.queued {
			s.write(64)
		}
		require.ErrorIs(t, s.p.EmitRecord(impatient(), []byte("x"), 0), context.Canceled)
		before := s.Rings()
		for read := 1; read <= row.queued; read++ {
			s.poll()
			want := before
			if read >= row.half {
				want++ // once: it would ask again
			}
			require.Equal(t, want, s.Rings(), "%d of %d read", read, row.queued)
		}
	}
}

// The consumer's user may keep half of the pool's size, though not all of that was
// granted.
func TestWriterOfAPoolThatIsGrantedLessWaitsForWhatCanCome(t *testing.T) {
	partition.SleepLong(t)
	const size, granted = 32, 8
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: size, SegmentSize: 64})
		other, err := link.Network.CreateLocalPool(pool.LocalConfig{Required: size - granted, Max: size - granted})
		require.NoError(t, err)
		for range size - granted {
			_, ok, err := other.TryRequest(pool.NoChannel)
			require.True(t, ok && err == nil)
		}
		require.NoError(t, link.Partition.PoolResized(size, nil))
		require.Equal(t, size, link.Pool.Size())
		view := link.View(0)
		for range granted {
			emit(t, link.Partition, 64, 0)
		}
		blocked := make(chan error, 1)
		go func() { blocked <- link.Partition.EmitRecord(context.Background(), make([]byte, 64), 0) }()
		require.Eventually(t, link.IsParked, wait, tick)
		first := hold(t, view)
		for range granted - 1 {
			defer func(b *memseg.Buffer) { require.NoError(t, b.Release()) }(hold(t, view))
		}
		require.NoError(t, first.Release())
		require.NoError(t, woken(t, blocked))
	})
}

func TestWakeUpPageSaysHowLongWritersSleep(t *testing.T) {
	page, err := os.ReadFile("../../docs/wakeup.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("| a writer without a segment | %v |", partition.MaxWait))
}

// Once much is with the consumer, a few segments are left alone until they are many.
func TestWriterKeepsItsDistance(t *testing.T) {
	const segments, third, armed = 12, 4, 5
	fill := func(t *testing.T, memory linktest.Memory) *stream {
		s := newStream(t, memory, segments, 64)
		for range segments {
			s.write(64)
		}
		return s
	}
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		partition.SetCacheSize(t, (segments-1)*64)
		partition.SleepLong(t)
		t.Run("goes on with a third", func(t *testing.T) {
			s := fill(t, memory)
			for read := 1; read < third; read++ {
				s.poll()
				require.ErrorIs(t, s.p.EmitRecord(impatient(), make([]byte, 64), 0), context.Canceled)
				require.Equal(t, segments, s.Pool.Used(), "%d of %d are released", read, segments)
			}
			s.poll()
			require.NoError(t, s.p.EmitRecord(impatient(), make([]byte, 64), 0))
			require.Equal(t, segments-third+1, s.Pool.Used(), "it takes all at once")
			s.write(64)
		})
		t.Run("is rung when it sleeps", func(t *testing.T) {
			s := fill(t, memory)
			held := hold(t, s.c.SubpartitionView)
			blocked := block(t, s)
			for range armed - 1 {
				s.poll() // which releases nothing: a cursor does not pass what is held
			}
			require.True(t, s.IsParked())
			require.NoError(t, held.Release())
			require.NoError(t, woken(t, blocked))
			require.Equal(t, segments-armed+1, s.Pool.Used())
		})
		t.Run("does not wait for what the user keeps", func(t *testing.T) {
			s := fill(t, memory)
			blocked := block(t, s)
			for range segments / 2 {
				s.poll()
			}
			for range segments / 2 {
				defer func(b *memseg.Buffer) { require.NoError(t, b.Release()) }(hold(t, s.c.SubpartitionView))
			}
			require.NoError(t, woken(t, blocked))
		})
		t.Run("until its consumer is lost", func(t *testing.T) {
			s := fill(t, memory)
			blocked := block(t, s)
			s.p.DetachConsumer(0, false, "it died")
			require.ErrorIs(t, woken(t, blocked), shuffle.ErrConsumerLost)
		})
	})
	t.Run("goes on with three caches, be the pool as large as it may", func(t *testing.T) {
		partition.SetCacheSize(t, 64)
		partition.SleepLong(t)
		s := fill(t, linktest.Heap)
		blocked := block(t, s)
		for range 3 {
			s.poll()
		}
		require.NoError(t, woken(t, blocked))
		require.Equal(t, segments-3+1, s.Pool.Used())
		s.write(2 * 64)
		s.poll()
		s.poll()
		require.ErrorIs(t, s.p.EmitRecord(impatient(), make([]byte, 64), 0), context.Canceled)
		s.poll()
		require.NoError(t, s.p.EmitRecord(impatient(), make([]byte, 64), 0))
	})
	t.Run("not when it waits for an event's place", func(t *testing.T) {
		partition.SetCacheSize(t, (segments-1)*64)
		partition.SleepLong(t)
		s := fill(t, linktest.Mapped)
		for range 8 {
			require.NoError(t, s.p.BroadcastEvent(context.Background(), newBarrier(priorityEvent)))
		}
		blocked := make(chan error, 1)
		go func() { blocked <- s.p.BroadcastEvent(context.Background(), newBarrier(priorityEvent)) }()
		require.Eventually(t, s.IsParked, wait, tick)
		s.poll()
		require.NoError(t, woken(t, blocked))
	})
	t.Run("not once it is rung for something else", func(t *testing.T) {
		partition.SetCacheSize(t, (segments-1)*64)
		partition.SleepLong(t)
		s := fill(t, linktest.Mapped)
		blocked := block(t, s)
		s.poll()
		require.True(t, s.IsParked())
		require.NoError(t, s.p.PoolResized(segments, nil))
		require.NoError(t, woken(t, blocked))
	})
	t.Run("not while little is with the consumer", func(t *testing.T) {
		partition.SetCacheSize(t, segments*64)
		s := fill(t, linktest.Heap)
		s.poll()
		require.NoError(t, s.p.EmitRecord(impatient(), make([]byte, 64), 0))
	})
	t.Run("not when nobody watches the consumer", func(t *testing.T) {
		partition.SetCacheSize(t, 0)
		s := fill(t, linktest.Heap)
		s.p.SetDaemonLost(shuffle.ErrDaemonLost)
		s.poll()
		require.NoError(t, s.p.EmitRecord(impatient(), make([]byte, 64), 0))
	})
	t.Run("not from several consumers", func(t *testing.T) {
		partition.SetCacheSize(t, 0)
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: segments,
			SegmentSize: 64})
		view := link.View(0)
		for range segments {
			emit(t, link.Partition, 64, 0)
		}
		poll(t, view)
		require.NoError(t, link.Partition.EmitRecord(impatient(), make([]byte, 64), 1))
	})
}

// block has a stream's writer sleep for want of segments, and returns where it
// reports.
func block(t *testing.T, s *stream) <-chan error {
	blocked := make(chan error, 1)
	go func() { blocked <- s.p.EmitRecord(context.Background(), make([]byte, 64), 0) }()
	require.Eventually(t, s.IsParked, wait, tick)
	return blocked
}

// woken returns what a writer reports that was woken, not one that woke by itself.
func woken(t *testing.T, blocked <-chan error) error {
	select {
	case err := <-blocked:
		return err
	case <-time.After(memseg.MaxParkTime / 2):
		t.Error("nobody has woken the writer")
		return <-blocked
	}
}

func TestPoolThatShrinksTakesNothingOutOfTheQueue(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 10, 64)
		for range 10 {
			s.write(64)
		}
		require.NoError(t, s.p.PoolResized(4, nil))
		require.Equal(t, 10, s.Pool.Used())
		require.Zero(t, s.Pool.Free())
		require.ErrorIs(t, s.p.EmitRecord(impatient(), []byte("x"), 0), context.Canceled)
		for i := range 10 {
			require.Equal(t, 64, s.poll().size)
			s.flush() // an idle writer gives back what was read meanwhile
			require.Equal(t, max(9-i, min(4, s.Pool.Requested())), s.Pool.Requested())
		}
		require.Equal(t, 4, s.Pool.Requested())
		for range 4 {
			require.NoError(t, s.p.EmitRecord(impatient(), make([]byte, 64), 0))
		}
		require.ErrorIs(t, s.p.EmitRecord(impatient(), []byte("x"), 0), context.Canceled)
	})
}

func TestPoolThatShrinksToWhatIsRequiredBehindABlockedSubpartition(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64})
	p := link.Partition
	first, second := link.View(0), link.View(1)
	require.NoError(t, p.BroadcastEvent(context.Background(), newBarrier(alignedEvent)))
	poll(t, first)
	poll(t, second)
	for range 8 {
		emit(t, p, 64, 0)
	}
	require.NoError(t, p.PoolResized(3, nil))
	require.ErrorIs(t, p.EmitRecord(impatient(), []byte("x"), 1), context.Canceled)
	err := first.ResumeConsumption()
	require.NoError(t, err)
	sizes, _ := drain(t, first)
	require.Len(t, sizes, 8)
	require.NoError(t, p.EmitRecord(impatient(), []byte("x"), 1))
	require.Equal(t, 3, link.Pool.Requested())
}

func TestPoolThatGrowsWakesABlockedWriter(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		require.NoError(t, s.p.PoolResized(2, nil))
		s.write(128)
		blocked := make(chan error)
		go func() { blocked <- s.p.EmitRecord(context.Background(), make([]byte, 256), 0) }()
		require.Eventually(t, s.IsParked, wait, tick)
		require.NoError(t, s.p.PoolResized(8, nil))
		require.NoError(t, <-blocked)
		require.Equal(t, 6, s.Pool.Used())
		require.EqualValues(t, 8, memseg.NewPartitionWords(s.Region()).PoolSize.Load())
	})
}

func TestPoolResizeIsChecked(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64})
	require.Error(t, link.Partition.PoolResized(2, nil), "less than what is required")
	require.Equal(t, 8, link.Pool.Size())
	require.ErrorIs(t, link.Partition.PoolResized(8, []int{8}), shuffle.ErrProtocol, "no such segment")
	require.ErrorIs(t, link.Partition.PoolResized(8, []int{-1}), shuffle.ErrProtocol)
	require.ErrorIs(t, link.Partition.PoolResized(8, []int{0}), shuffle.ErrProtocol, "nobody asked for it")
}

// The consumer waits for a large batch, and leaves a part of it, and the writer waits
// for a segment, or for many: whoever did not flush before it waits would wait for
// ever.
func TestWriterAndThresholdNeverWaitForEachOther(t *testing.T) {
	partition.SleepLong(t)
	random := newRandom(t)
	for _, memory := range linktest.Memories {
		for range 30 {
			partition.SetCacheSize(t, random.IntN(200))
			subpartitions := 1 + random.IntN(3)
			link := linktest.New(t, linktest.Config{
				Memory: memory, Subpartitions: subpartitions, Segments: subpartitions + 1 + random.IntN(4),
				SegmentSize: 8 + random.IntN(100),
			})
			const bytes = 20_000
			var readers sync.WaitGroup
			for sub := range subpartitions {
				c := link.Consumer(sub)
				seed := random.Uint64()
				readers.Go(func() { readWithThresholds(t, c, rand.New(rand.NewPCG(seed, 0)), bytes) })
			}
			written := make([]int, subpartitions)
			for sub := 0; sub >= 0; sub = nextUnwritten(random, written, bytes) {
				n := min(1+random.IntN(150), bytes-written[sub])
				emit(t, link.Partition, n, sub)
				written[sub] += n
			}
			require.NoError(t, link.Partition.FlushAll())
			readers.Wait()
		}
	}
}

func nextUnwritten(random *rand.Rand, written []int, want int) int {
	var left []int
	for sub, n := range written {
		if n < want {
			left = append(left, sub)
		}
	}
	if len(left) == 0 {
		return -1
	}
	return left[random.IntN(len(left))]
}

// readWithThresholds reads as a gate does: what was armed for is waited for by
// looking at the doorbell.
func readWithThresholds(t *testing.T, c *linktest.Consumer, random *rand.Rand, bytes int) {
	for read := 0; read < bytes; {
		rings := c.Rings()
		threshold := random.IntN(400)
		if !c.IsAvailableBeyond(random.IntN(threshold+1)) && c.Arm(threshold) {
			c.Park(context.Background(), rings)
			continue
		}
		b := &memseg.Buffer{}
		ok, err := c.Take(b)
		if err != nil {
			t.Errorf("poll: %v", err)
			return
		}
		if ok {
			read += b.Len()
			_ = b.Release()
		}
	}
}

// With many subpartitions the queues are short. One that is full holds up who writes to
// it, and never the end.
func TestFullQueueHoldsUpItsSubpartitionAlone(t *testing.T) {
	const subpartitions, elements = 600, 15
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		partition.SleepLong(t)
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: subpartitions, Segments: 700,
			SegmentSize: 16})
		p := link.Partition
		for range elements {
			emit(t, p, 16, 7)
		}
		err := p.EmitRecord(canceled(), make([]byte, 16), 7)
		require.ErrorIs(t, err, context.Canceled)
		emit(t, p, 16, 8)
		view := link.View(7)
		blocked := make(chan error, 1)
		go func() { blocked <- p.EmitRecord(context.Background(), make([]byte, 16), 7) }()
		require.Eventually(t, link.IsParked, wait, tick)
		for range elements / 2 {
			poll(t, view)
		}
		require.NoError(t, woken(t, blocked))
		for range elements/2 - 1 {
			emit(t, p, 16, 7)
		}
		err = p.BroadcastRecord(impatient(), make([]byte, 16))
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, fmt.Sprintf("room in the queue of subpartition 7, which has the %d elements",
			elements))
		require.NoError(t, p.Finish(context.Background()), "the end never waits")
	})
}

func TestSegmentsAreReusedFirstInFirstOut(t *testing.T) {
	s := newStream(t, linktest.Heap, 4, 16)
	var segments []int
	for range 12 {
		s.write(16)
		published := s.ReadPublished(0)
		segments = append(segments, published[len(published)-1].Segment)
		s.poll()
	}
	require.Equal(t, []int{0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}, segments)
}
