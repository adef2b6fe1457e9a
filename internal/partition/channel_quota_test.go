package partition_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
)

// Every way to write a record of 64 bytes, or of more, to subpartition 0.
var waysToWrite = map[string]func(ctx context.Context, p *partition.ResultPartition, n int) error{
	"emit": func(ctx context.Context, p *partition.ResultPartition, n int) error {
		return p.EmitRecord(ctx, make([]byte, n), 0)
	},
	"start and fill in": func(ctx context.Context, p *partition.ResultPartition, n int) error {
		open, dst, err := p.StartRecord(ctx, memseg.PlaceOf(&n), n, 0)
		if err != nil {
			return err
		}
		if dst == nil {
			return p.EmitRecord(ctx, make([]byte, n), 0)
		}
		open.Advance(n)
		return p.PublishOpen(0)
	},
	"broadcast": func(ctx context.Context, p *partition.ResultPartition, n int) error {
		return p.BroadcastRecord(ctx, make([]byte, n))
	},
	"reserve": func(ctx context.Context, p *partition.ResultPartition, n int) error {
		if n > 64 {
			return p.EmitRecord(ctx, make([]byte, n), 0)
		}
		if _, err := p.Reserve(ctx, 0, n-4); err != nil {
			return err
		}
		return p.Commit()
	},
}

func TestQuotaHoldsForEveryWayOfWriting(t *testing.T) {
	for name, write := range waysToWrite {
		t.Run(name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 12, SegmentSize: 64,
					Quota: 2})
				p := link.Partition
				first, second := link.View(0), link.View(1)
				require.NoError(t, write(impatient(), p, 64))
				require.True(t, p.IsAvailable())
				require.NoError(t, write(impatient(), p, 64))
				require.False(t, p.IsAvailable(), "subpartition 0 is at its quota")
				drain(t, second)
				err := write(impatient(), p, 64)
				require.ErrorIs(t, err, context.Canceled)
				require.ErrorContains(t, err,
					"subpartition 0, which has the 2 buffers that MaxBuffersPerChannel allows, whose consumer has to read")
				require.Equal(t, nothing, poll(t, second), "nothing was written")

				// Others have the pool to themselves.
				for range 2 {
					require.NoError(t, p.EmitRecord(impatient(), make([]byte, 64), 1))
				}

				// A record that was begun may end.
				drain(t, first)
				drain(t, second)
				require.NoError(t, write(impatient(), p, 5*64))
				sizes, _ := drain(t, first)
				require.Equal(t, []int{64, 64, 64, 64, 64}, sizes)
			})
		})
	}
}

func TestRecordThatNeedsMoreThanTheOpenBufferWaitsForTheQuota(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, p *partition.ResultPartition, n int) error{
		"emit": waysToWrite["emit"], "broadcast": waysToWrite["broadcast"],
	} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 12, SegmentSize: 64,
			Quota: 1})
		p, view := link.Partition, link.View(0)
		require.NoError(t, write(impatient(), p, 16))
		require.NoError(t, write(impatient(), p, 16), "it fits the buffer")
		require.ErrorIs(t, write(impatient(), p, 64), context.Canceled, name)
		sizes, _ := drain(t, view)
		require.Equal(t, []int{32}, sizes, name)
		require.NoError(t, write(impatient(), p, 64), name)
		sizes, _ = drain(t, view)
		require.Equal(t, []int{64}, sizes, name)
	}
}

func TestWriterAtItsQuotaIsWokenByItsConsumer(t *testing.T) {
	partition.SleepLong(t)
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 12, SegmentSize: 64,
			Quota: 2})
		p := link.Partition
		view := link.View(0)
		emit(t, p, 64, 0)
		emit(t, p, 64, 0)
		blocked := make(chan error, 1)
		go func() { blocked <- p.EmitRecord(context.Background(), make([]byte, 64), 0) }()
		require.Eventually(t, link.IsParked, wait, tick)
		require.Equal(t, 64, poll(t, view).size)
		require.NoError(t, woken(t, blocked))
	})
}
