package partition_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
)

// Whatever the output flusher comes upon, a consumer finds a part of a record only in
// a buffer that is ended, and so sees at the next one that it goes on.
func TestFlushNeverShowsAPartOfARecordInAnOpenBuffer(t *testing.T) {
	ctx := context.Background()
	for name, row := range map[string]struct {
		size int // with its prefix
		emit func(p *partition.ResultPartition, prefix, body []byte) error
	}{
		"in one buffer": {256 << 10, func(p *partition.ResultPartition, prefix, body []byte) error {
			return p.EmitRecordParts(ctx, prefix, body, 0)
		}},
		"over buffers": {700_000, func(p *partition.ResultPartition, prefix, body []byte) error {
			return p.EmitRecordParts(ctx, prefix, body, 0)
		}},
		"broadcast": {256 << 10, func(p *partition.ResultPartition, prefix, body []byte) error {
			return p.BroadcastRecordParts(ctx, prefix, body)
		}},
		"broadcast over buffers": {700_000, func(p *partition.ResultPartition, prefix, body []byte) error {
			return p.BroadcastRecordParts(ctx, prefix, body)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const records = 200
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 8,
				SegmentSize: 1 << 20})
			view, p := link.View(0), link.Partition
			written, flushed := make(chan error, 1), make(chan error, 1)
			go func() {
				prefix := framed(row.size-4, 0)[:4]
				body := make([]byte, row.size-4)
				var err error
				for i := 0; i < records && err == nil; i++ {
					err = row.emit(p, prefix, body)
				}
				if err == nil {
					err = p.Finish(ctx)
				}
				written <- err
			}()
			stop := make(chan struct{})
			go func() {
				var err error
				for done := false; !done && err == nil; {
					err = p.FlushAll()
					select {
					case <-stop:
						done = true
					default:
					}
				}
				flushed <- err
			}()
			read := 0
			for !view.Ended() {
				content, typ := take(t, view)
				if !typ.IsBuffer() {
					runtime.Gosched()
					continue
				}
				if read += len(content); read%row.size == 0 {
					continue
				}
				for !view.IsAvailableBeyond(0) {
					runtime.Gosched()
				}
				require.True(t, view.ContinuesRecord(), "after %d bytes of %d in its last record", read%row.size,
					row.size)
			}
			require.Equal(t, records*row.size, read)
			close(stop)
			require.NoError(t, <-flushed)
			require.NoError(t, <-written)
		})
	}
}
