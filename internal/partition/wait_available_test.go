package partition_test

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/shuffle"
)

func TestWriterWaitsUntilABufferCanBeStarted(t *testing.T) {
	for name, row := range map[string]struct{ segments, quota, bytes int }{
		"a segment":             {2, 0, 64},
		"its quota":             {8, 2, 64},
		"a quota of one buffer": {8, 1, 8}, // which is open
	} {
		t.Run(name, func(t *testing.T) {
			linktest.OverMemories(t, func(t *testing.T, memory linktest.Memory) {
				link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: row.segments,
					SegmentSize: 64, Quota: row.quota})
				view := link.View(0)
				require.NoError(t, link.Partition.WaitAvailable(context.Background()))
				for link.Partition.IsAvailable() {
					emit(t, link.Partition, row.bytes, 0)
				}
				woken := make(chan error, 1)
				go func() { woken <- link.Partition.WaitAvailable(context.Background()) }()
				require.Eventually(t, link.IsParked, wait, tick)
				drain(t, view)
				require.NoError(t, <-woken)
				require.True(t, link.Partition.IsAvailable())
				require.Positive(t, link.Partition.BackPressured())
			})
		})
	}
}

func TestWaitForABufferEndsWithItsContextOrThePartition(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 64})
	link.View(0)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, link.Partition.WaitAvailable(ended), context.Canceled, "it looks there first")
	emit(t, link.Partition, 64, 0)
	emit(t, link.Partition, 64, 0)
	for _, row := range []struct {
		want error
		end  func(cancel func())
	}{
		{context.Canceled, func(cancel func()) { cancel() }},
		{shuffle.ErrPartitionFailed,
			func(func()) { _ = link.Partition.Fail(context.Background(), errors.New("mine")) }},
	} {
		ctx, cancel := context.WithCancel(context.Background())
		woken := make(chan error, 1)
		go func() { woken <- link.Partition.WaitAvailable(ctx) }()
		require.Eventually(t, link.IsParked, wait, tick)
		row.end(cancel)
		require.ErrorIs(t, <-woken, row.want)
		cancel()
	}
}

func TestWaitForABufferIsRefusedWhileARecordIsReserved(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 64})
	_, err := link.Partition.Reserve(context.Background(), 0, 8)
	require.NoError(t, err)
	require.ErrorIs(t, link.Partition.WaitAvailable(context.Background()), shuffle.ErrInvalidArgument)
	require.NoError(t, link.Partition.Commit())
	require.NoError(t, link.Partition.WaitAvailable(context.Background()))
}

// The consumer releases when the writer goes to sleep or is about to: a wake-up that is
// lost holds the test up for a minute.
func TestWaitForABufferLosesNoWakeUp(t *testing.T) {
	partition.SleepLong(t)
	const rounds = 3000
	ctx, cancel := context.WithTimeout(context.Background(), wait/2)
	defer cancel()
	link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 2, SegmentSize: 64})
	view := link.View(0)
	written := make(chan error, 1)
	go func() {
		for range rounds {
			if err := link.Partition.WaitAvailable(ctx); err != nil {
				written <- err
				return
			}
			if err := link.Partition.EmitRecord(ctx, make([]byte, 64), 0); err != nil {
				written <- err
				return
			}
		}
		written <- link.Partition.Finish(ctx)
	}()
	random := newRandom(t)
	read := 0
	for !view.Ended() && ctx.Err() == nil {
		for range random.IntN(5) {
			runtime.Gosched()
		}
		if poll(t, view).size == 64 {
			read++
		}
	}
	require.NoError(t, <-written)
	require.Equal(t, rounds, read)
}
