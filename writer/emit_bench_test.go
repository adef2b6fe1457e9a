package writer_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/shuffle"
	"shuffled/writer"
)

// BenchmarkEmitDiscarded is the writer's side alone: nobody reads, and every
// segment is free again at once.
func BenchmarkEmitDiscarded(b *testing.B) {
	for _, size := range []int{16, 100, 1000, 8000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			link := linktest.New(b, linktest.Config{
				Memory: linktest.Mapped, Subpartitions: 1, Segments: 128, SegmentSize: 32 << 10,
				OnLost: shuffle.DiscardOnConsumerLost,
			})
			link.Partition.DetachConsumer(0, false, "nobody reads")
			w, err := writer.New(link.Partition, shuffle.Bytes{}, writer.Forward[[]byte]())
			require.NoError(b, err)
			rec := make([]byte, size)
			ctx := context.Background()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Emit(ctx, rec); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, w.Close())
		})
	}
}

// BenchmarkEmitWithCodec is the same with a codec of the user's.
func BenchmarkEmitWithCodec(b *testing.B) {
	link := linktest.New(b, linktest.Config{
		Memory: linktest.Mapped, Subpartitions: 1, Segments: 128, SegmentSize: 32 << 10,
		OnLost: shuffle.DiscardOnConsumerLost,
	})
	link.Partition.DetachConsumer(0, false, "nobody reads")
	w, err := writer.New(link.Partition, shuffle.Strings{}, writer.Forward[string]())
	require.NoError(b, err)
	ctx := context.Background()
	b.SetBytes(16)
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Emit(ctx, "sixteen bytes ..."[:16]); err != nil {
			b.Fatal(err)
		}
	}
	require.NoError(b, w.Close())
}
