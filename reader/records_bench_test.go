package reader_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

func BenchmarkEmitToRecords(b *testing.B) {
	for _, size := range []int{16, 100, 1000, 8000} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			link := linktest.New(b, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 128,
				SegmentSize: 32 << 10})
			gate := link.Gate(0)
			w, err := writer.New(link.Partition, shuffle.Bytes{}, writer.Forward[[]byte]())
			require.NoError(b, err)
			b.SetBytes(int64(size))
			b.ReportAllocs()
			done := make(chan int)
			go func() {
				n := 0
				for range reader.Records(context.Background(), gate, shuffle.Bytes{}) {
					n++
				}
				done <- n
			}()
			rec := make([]byte, size)
			ctx := context.Background()
			b.ResetTimer()
			for range b.N {
				if err := w.Emit(ctx, rec); err != nil {
					b.Fatal(err)
				}
			}
			require.NoError(b, w.Finish(ctx))
			require.Equal(b, b.N, <-done)
			b.StopTimer()
			require.NoError(b, w.Close())
			require.NoError(b, gate.Close())
		})
	}
}
