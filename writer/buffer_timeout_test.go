package writer_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/shuffle"
	"shuffled/writer"
)

func TestFlushAlwaysWakesForEachRecord(t *testing.T) {
	ctx := context.Background()
	for _, row := range []struct {
		name string
		emit func(w *writer.RecordWriter[[]byte], rec []byte) error
	}{
		{"Emit", func(w *writer.RecordWriter[[]byte], rec []byte) error { return w.Emit(ctx, rec) }},
		{"Broadcast", func(w *writer.RecordWriter[[]byte], rec []byte) error { return w.Broadcast(ctx, rec) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8,
					SegmentSize: 1024})
				w := newWriter(t, link, writer.Forward[[]byte](), writer.WithBufferTimeout(writer.FlushAlways))
				c := link.Consumer(0)
				for i := range 40 { // over some buffers
					require.True(t, c.Arm(1<<20))
					require.NoError(t, row.emit(w, framedRecord(100)))
					require.GreaterOrEqual(t, c.Rings(), i+1)
					require.True(t, c.IsAvailableBeyond(0))
					read := 0
					for content := take(t, c.SubpartitionView); content != nil; content = take(t, c.SubpartitionView) {
						read += len(content)
					}
					require.Equal(t, 100, read)
					require.EqualValues(t, i+1, w.Counters().Records)
				}
			})
		})
	}
}

func TestFlushAlwaysWakesForARecordOfManyBuffers(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64})
	w := newWriter(t, link, toFirst[[]byte](), writer.WithBufferTimeout(writer.FlushAlways))
	c, other := link.Consumer(1), link.Consumer(0)
	require.True(t, c.Arm(1<<20))
	require.True(t, other.Arm(1<<20))
	require.NoError(t, w.EmitTo(context.Background(), framedRecord(150), 1))
	require.True(t, c.IsAvailableBeyond(0))
	require.Equal(t, []int{64, 64, 22}, []int{len(take(t, c.SubpartitionView)), len(take(t, c.SubpartitionView)),
		len(take(t, c.SubpartitionView))})
	require.Zero(t, other.Rings(), "nothing was written for that one")
}

func TestFlushNeverWakesForWholeBuffersOnly(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8, SegmentSize: 1000})
		w := newWriter(t, link, writer.Forward[[]byte](), writer.WithBufferTimeout(writer.FlushNever))
		c := link.Consumer(0)
		require.True(t, c.Arm(0))
		for range 9 {
			require.NoError(t, w.Emit(context.Background(), framedRecord(100)))
			require.False(t, c.IsAvailableBeyond(0))
		}
		require.Zero(t, c.Rings())
		require.NoError(t, w.Emit(context.Background(), framedRecord(100)))
		require.Equal(t, 1, c.Rings())
		require.True(t, c.IsAvailableBeyond(0))
		require.Len(t, take(t, c.SubpartitionView), 1000)
		require.NoError(t, w.Emit(context.Background(), framedRecord(100)))
		require.NoError(t, w.Flush())
		require.Len(t, take(t, c.SubpartitionView), 100)
	})
}

// The writer has gone idle: nobody but the flusher can publish its last records.
func TestFlusherPublishesWhatAnIdleWriterHasWritten(t *testing.T) {
	for _, toAll := range []bool{false, true} {
		overMemories(t, func(t *testing.T, memory linktest.Memory) {
			link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 8,
				SegmentSize: 32 << 10})
			w := newWriter(t, link, toFirst[[]byte](), writer.WithBufferTimeout(time.Millisecond))
			c := link.Consumer(0)
			for range 3 {
				require.True(t, c.Arm(1<<20))
				rings := c.Rings()
				for range 3 {
					if toAll {
						require.NoError(t, w.Broadcast(context.Background(), framedRecord(100)))
					} else {
						require.NoError(t, w.Emit(context.Background(), framedRecord(100)))
					}
				}
				read := 0
				require.Eventually(t, func() bool {
					for c.IsAvailableBeyond(0) {
						read += len(take(t, c.SubpartitionView))
					}
					return read == 300
				}, wait, tick)
				require.Greater(t, c.Rings(), rings)
			}
			require.NoError(t, w.Close())
		})
	}
}

func TestFlusherEndsWithTheWriter(t *testing.T) {
	ctx := context.Background()
	for _, end := range []func(w *writer.RecordWriter[[]byte]) error{
		func(w *writer.RecordWriter[[]byte]) error { return w.Finish(ctx) },
		func(w *writer.RecordWriter[[]byte]) error { return w.Fail(ctx, shuffle.ErrConsumerLost) },
		func(w *writer.RecordWriter[[]byte]) error { return w.Close() },
	} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 8,
			SegmentSize: 1000})
		w := newWriter(t, link, writer.Forward[[]byte](), writer.WithBufferTimeout(writer.MinBufferTimeout))
		require.NoError(t, w.Emit(ctx, []byte("text")))
		require.NoError(t, end(w)) // one that went on would be found, or touch unmapped memory
	}
}
