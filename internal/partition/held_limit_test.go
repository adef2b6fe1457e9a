package partition_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// checkStuck asks a view again and again, each time an hour later.
type checkStuck struct {
	view *partition.SubpartitionView
	now  time.Time
}

func (c *checkStuck) next() error {
	c.now = c.now.Add(time.Hour)
	return c.view.CheckStuck(c.now)
}

// toldOf waits until the user of a view is told why its producer does not go on.
func toldOf(t *testing.T, view *partition.SubpartitionView) error {
	t.Helper()
	c := checkStuck{view: view}
	var err error
	require.Eventually(t, func() bool { err = c.next(); return err != nil }, wait, tick)
	require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
	return err
}

// requireNotTold asks often while the writer sleeps.
func requireNotTold(t *testing.T, link *linktest.Link, view *partition.SubpartitionView) {
	t.Helper()
	c := checkStuck{view: view}
	for range 20 {
		require.Eventually(t, link.IsParked, wait, tick)
		require.NoError(t, c.next())
	}
}

// Whatever the producer waits for, its consumer's user is told if it is in the way.
func TestUserIsToldWhateverTheProducerLacks(t *testing.T) {
	write := func(link *linktest.Link) error {
		return link.Partition.EmitRecord(context.Background(), make([]byte, 64), 0)
	}
	for name, row := range map[string]struct {
		quota, segments int
		granted         int // of them, 0 for all
		buffers         int // that are written and read
		keep            int // of these, the first
		events          int
		block           func(link *linktest.Link) error
		why             string
	}{
		"the quota": {segments: 20, quota: 3, buffers: 3, keep: 3, block: write,
			why: "3 are kept, the oldest is element 0, and 0 of 3 elements read since then were released; it goes on with at most 2 held back, fewer than its MaxBuffersPerChannel"},
		"what is held back": {segments: 20, quota: 3, buffers: 3, keep: 1, block: write,
			why: "1 are kept, the oldest is element 0, and 2 of 3 elements read since then were released; it goes on with at most 2"},
		"the quota and events": {segments: 20, quota: 3, buffers: 3, keep: 3, events: 4, block: write,
			why: "4 of 7 elements read since then were released; it goes on with at most 6"},
		"granted segments": {segments: 32, granted: 4, buffers: 4, keep: 4, block: write,
			why: "4 are kept, the oldest is element 0, and 0 of 4 elements read since then were released; it goes on with at most 2 held back, half of the subpartition's share of the segments that it has"},
		"events": {segments: 100, buffers: 1, keep: 1, events: 15, block: func(link *linktest.Link) error {
			return link.Partition.BroadcastEvent(context.Background(), newBarrier(event))
		}, why: "1 are kept, the oldest is element 0, and 15 of 16 elements read since then were released; it goes on with at most 15 held back, so that it can send further events"},
	} {
		t.Run(name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: row.segments,
					SegmentSize: 64, Quota: row.quota})
				if row.granted > 0 {
					grantOnly(t, link, row.segments, row.granted)
				}
				view := link.View(0)
				var kept []*memseg.Buffer
				for i := range row.buffers {
					require.NoError(t, write(link))
					if b := hold(t, view); i < row.keep {
						kept = append(kept, b)
					} else {
						require.NoError(t, b.Release())
					}
				}
				for range row.events {
					sendEvent(t, link.Partition, newBarrier(event))
					require.NoError(t, hold(t, view).Release())
				}
				blocked := make(chan error, 1)
				go func() { blocked <- row.block(link) }()
				err := toldOf(t, view)
				require.ErrorContains(t, err, row.why)
				require.True(t, view.HoldsBack())
				require.NoError(t, kept[0].Release())
				require.NoError(t, woken(t, blocked))
				for _, b := range kept[1:] {
					require.NoError(t, b.Release())
				}
				require.False(t, view.Keeps())
			})
		})
	}
}

// grantOnly has others hold all but so many segments of a link.
func grantOnly(t *testing.T, link *linktest.Link, size, granted int) {
	t.Helper()
	other, err := link.Network.CreateLocalPool(pool.LocalConfig{Required: size - granted, Max: size - granted})
	require.NoError(t, err)
	for range size - granted {
		_, ok, err := other.TryRequest(pool.NoChannel)
		require.True(t, ok && err == nil)
	}
	require.NoError(t, link.Partition.PoolResized(size, nil))
}

// A user who keeps as much of its own subpartition is not told of what the producer
// waits for in another one, nor of one that waits for a segment if it keeps no more
// than its part.
func TestUserIsNotToldOfWhatOthersHold(t *testing.T) {
	t.Run("the quota of another", func(t *testing.T) {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 20, SegmentSize: 64,
			Quota: 2})
		keeping, slow := link.View(0), link.View(1)
		for range 2 {
			emit(t, link.Partition, 64, 0)
			emit(t, link.Partition, 64, 1)
			defer func(b *memseg.Buffer) { require.NoError(t, b.Release()) }(hold(t, keeping))
		}
		blocked := make(chan error, 1)
		go func() { blocked <- link.Partition.EmitRecord(context.Background(), make([]byte, 64), 1) }()
		requireNotTold(t, link, keeping)
		drain(t, slow)
		require.NoError(t, woken(t, blocked))
	})
	t.Run("the segments of another", func(t *testing.T) {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64})
		keeping, slow := link.View(0), link.View(1)
		for range 2 {
			emit(t, link.Partition, 64, 0)
			defer func(b *memseg.Buffer) { require.NoError(t, b.Release()) }(hold(t, keeping))
		}
		for range 6 {
			emit(t, link.Partition, 64, 1)
		}
		blocked := make(chan error, 1)
		go func() { blocked <- link.Partition.EmitRecord(context.Background(), make([]byte, 64), 1) }()
		requireNotTold(t, link, keeping)
		drain(t, slow)
		require.NoError(t, woken(t, blocked))
	})
	t.Run("a wait that is over", func(t *testing.T) {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 20, SegmentSize: 64,
			Quota: 2})
		view := link.View(0)
		emit(t, link.Partition, 64, 0)
		emit(t, link.Partition, 64, 0)
		blocked := make(chan error, 1)
		go func() { blocked <- link.Partition.EmitRecord(context.Background(), make([]byte, 64), 0) }()
		require.Eventually(t, link.IsParked, wait, tick)
		require.Equal(t, 64, poll(t, view).size)
		require.NoError(t, woken(t, blocked))
		for range 2 {
			defer func(b *memseg.Buffer) { require.NoError(t, b.Release()) }(hold(t, view))
		}
		c := checkStuck{view: view}
		require.True(t, view.HoldsBack(), "as much as it had waited for")
		for range 3 {
			require.NoError(t, c.next())
		}
	})
}
