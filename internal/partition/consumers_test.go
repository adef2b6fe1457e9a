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

func TestConsumerThatIsLost(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, row := range []struct {
			name     string
			policy   shuffle.ConsumerLostPolicy
			consumed bool
			want     error // of writes
		}{
			{"before the end, the partition fails", shuffle.FailOnConsumerLost, false, shuffle.ErrConsumerLost},
			{"before the end, its data is dropped", shuffle.DiscardOnConsumerLost, false, nil},
			{"after it has read everything", shuffle.FailOnConsumerLost, true, nil},
		} {
			t.Run(row.name, func(t *testing.T) {
				link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 8, SegmentSize: 64,
					OnLost: row.policy})
				p := link.Partition
				link.Consumer(0)
				other := link.View(1)
				emit(t, p, 64+64+10, 0)
				emit(t, p, 64, 1)
				require.Equal(t, 4, link.Pool.Used())

				p.DetachConsumer(0, row.consumed, "its process ended")
				require.Equal(t, 2, link.Pool.Used(), "what it held is free at once, but for the open buffer")
				require.Equal(t, 1, p.Subpartition(0).QueuedBuffers())
				err := p.EmitRecord(context.Background(), make([]byte, 54+640), 0)
				if row.want == nil {
					require.NoError(t, err)
					require.Equal(t, 1, link.Pool.Used(), "dropped as soon as it was written")
					require.EqualValues(t, 14, p.BuffersOut(), "counted as usual")
					require.NoError(t, p.Finish(context.Background()))
				} else {
					require.ErrorIs(t, err, row.want)
					require.ErrorContains(t, err, "its process ended")
					require.Equal(t, err, p.PublishOpen(1))
					require.Equal(t, err, p.BroadcastEvent(context.Background(), shuffle.CustomEvent{}))
					require.Equal(t, err, p.Finish(context.Background()))
				}
				require.Equal(t, 64, poll(t, other).size, "the other consumer has what was written")
			})
		}
	})
}

func TestConsumerLostWakesABlockedWriter(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, row := range []struct {
			policy shuffle.ConsumerLostPolicy
			want   error
		}{{shuffle.FailOnConsumerLost, shuffle.ErrConsumerLost}, {shuffle.DiscardOnConsumerLost, nil}} {
			link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 2, SegmentSize: 64,
				OnLost: row.policy})
			p := link.Partition
			link.Consumer(0)
			emit(t, p, 128, 0)
			blocked := make(chan error)
			go func() { blocked <- p.EmitRecord(context.Background(), make([]byte, 200), 0) }()
			require.Eventually(t, link.IsParked, wait, tick)
			p.DetachConsumer(0, false, "gone")
			require.ErrorIs(t, <-blocked, row.want)
		}
	})
}

func TestConsumerThatComesLateGetsEverything(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 2, SegmentSize: 64})
		emit(t, link.Partition, 128, 0)
		blocked := make(chan error)
		go func() { blocked <- link.Partition.EmitRecord(context.Background(), make([]byte, 64), 0) }()
		require.Eventually(t, link.IsParked, wait, tick)
		before := link.Rings()
		view := link.View(0)
		require.Greater(t, link.Rings(), before, "the writer must ask this one to wake it")
		require.Equal(t, 64, poll(t, view).size)
		require.NoError(t, <-blocked)
		sizes, _ := drain(t, view)
		require.Equal(t, []int{64, 64}, sizes)
	})
}

// One that stops holds the others back when the pool is used up, and no earlier.
func TestStoppedConsumerBlocksTheWriterUntilItIsDropped(t *testing.T) {
	const consumers, segments = 64, 80
	link := linktest.New(t, linktest.Config{
		Memory: linktest.Mapped, Subpartitions: consumers, Segments: segments, SegmentSize: 64,
		OnLost: shuffle.DiscardOnConsumerLost,
	})
	p := link.Partition
	var views []*partition.SubpartitionView
	for i := range consumers {
		views = append(views, link.View(i))
	}
	written := make([]int, consumers)
	read := make([]int, consumers)
	write := func() error { // to each in turn
		for i := range consumers {
			if err := p.EmitRecord(impatient(), make([]byte, 64), i); err != nil {
				return err
			}
			written[i]++
			if i > 0 { // 0 has stopped
				read[i] += poll(t, views[i]).size / 64
			}
		}
		return nil
	}
	for range segments - 1 {
		require.NoError(t, write())
	}
	require.ErrorIs(t, write(), context.Canceled)
	require.Equal(t, segments, link.Pool.Used(), "bounded")
	require.Equal(t, written[1:], read[1:], "nobody else misses anything")
	p.DetachConsumer(0, false, "dropped")
	for range segments {
		require.NoError(t, write())
	}
	require.Equal(t, written[1:], read[1:])
}

func TestImpossibleReleasedCursorEndsThatConsumerOnly(t *testing.T) {
	for _, row := range []struct {
		name  string
		spoil func(c *linktest.Consumer)
	}{
		{"beyond what was published", func(c *linktest.Consumer) { c.Words.Released.Store(linktest.NearWrap + 4) }},
		{"on the open buffer", func(c *linktest.Consumer) { c.Words.Released.Store(linktest.NearWrap + 3) }},
		{"back behind the start", func(c *linktest.Consumer) { c.Words.Released.Store(linktest.NearWrap - 1) }},
		{"zero", func(c *linktest.Consumer) { c.Words.Released.Store(1 << 63) }},
		{"of priority events beyond what was published",
			func(c *linktest.Consumer) { c.Words.PriorityReleased.Store(linktest.NearWrap + 2) }},
		{"of priority events back",
			func(c *linktest.Consumer) { c.Words.PriorityReleased.Store(linktest.NearWrap - 1) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, policy := range []shuffle.ConsumerLostPolicy{shuffle.FailOnConsumerLost,
				shuffle.DiscardOnConsumerLost} {
				link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 2, Segments: 8,
					SegmentSize: 64, OnLost: policy})
				p := link.Partition
				hostile, honest := link.Consumer(0), link.View(1)
				require.NoError(t, p.BroadcastEvent(context.Background(), newBarrier(priorityEvent)))
				emit(t, p, 128+10, 0) // two finished ones and an open one
				emit(t, p, 128, 1)
				row.spoil(hostile)
				p.Reclaim()
				require.Equal(t, 3, link.Pool.Used(), "its buffers are free, but for the open one")
				err := p.EmitRecord(context.Background(), make([]byte, 64), 1)
				if policy == shuffle.FailOnConsumerLost {
					require.ErrorIs(t, err, shuffle.ErrConsumerLost)
					require.ErrorIs(t, err, shuffle.ErrProtocol)
					require.ErrorContains(t, err, "subpartition 0")
					continue
				}
				require.NoError(t, err)
				require.NoError(t, p.Finish(context.Background()))
				_, types := drain(t, honest)
				require.Equal(t, []memseg.DataType{priorityEvent, data, data, data, memseg.EndOfPartition}, types)
			}
		})
	}
}

func TestReleasedCursorMayCoverEverythingFinished(t *testing.T) {
	s := newStream(t, linktest.Heap, 8, 64)
	s.write(128 + 10)
	s.c.Words.Released.Store(linktest.NearWrap + 2)
	s.p.Reclaim()
	require.Equal(t, 1, s.Pool.Used())
	require.NoError(t, s.p.EmitRecord(context.Background(), []byte("goes on"), 0))
}

func TestDetachingTwiceOrNobody(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 4, SegmentSize: 64,
		OnLost: shuffle.DiscardOnConsumerLost})
	p := link.Partition
	for _, sub := range []int{0, 0, -1, 2} {
		p.DetachConsumer(sub, false, "gone")
	}
	emit(t, p, 64, 0)
	emit(t, p, 64, 1)
	require.Equal(t, 1, link.Pool.Used())
}
