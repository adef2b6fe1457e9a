//go:build !race

// The race detector reports what is done here.

package writer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// selfTest is a record that shows whether it is whole: a goroutine, its count, and
// bytes that follow from them.
func selfTest(dst []byte, goroutine, n uint64) []byte {
	dst = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst[:0], goroutine), n)
	return append(dst, bytes.Repeat([]byte{byte(goroutine*31 + n)}, int(n%40))...)
}

// What several goroutines emit at once is in the stream, whole and in the order of each, if
// Emit has returned nil, and is not if it was refused.
func TestGoroutinesThatEmitAtOnceSpoilNothing(t *testing.T) {
	const goroutines, each = 3, 20_000
	for _, subpartitions := range []int{1, 2} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: subpartitions, Segments: 32,
			SegmentSize: 4096})
		w := newWriter(t, link, writer.Custom(func(rec []byte, n int) int { return int(rec[15]) % n }))
		var group sync.WaitGroup
		var refused atomic.Int64
		failures := make(chan error, goroutines)
		for g := range uint64(goroutines) {
			group.Go(func() {
				var rec []byte
				for n := uint64(0); n < each; {
					rec = selfTest(rec, g, n)
					switch err := w.Emit(context.Background(), rec); {
					case err == nil:
						n++
					case errors.Is(err, shuffle.ErrConcurrentUse):
						refused.Add(1)
					default:
						failures <- err
						return
					}
				}
			})
		}
		finished := make(chan error)
		go func() {
			group.Wait()
			finished <- w.Finish(context.Background())
		}()
		subs := make([]int, subpartitions)
		for i := range subs {
			subs[i] = i
		}
		var seen [goroutines]map[uint64]bool
		for g := range seen {
			seen[g] = make(map[uint64]bool)
		}
		for rec, err := range reader.Records(context.Background(), link.Gate(subs...), shuffle.Bytes{}) {
			require.NoError(t, err)
			require.GreaterOrEqual(t, len(rec), 16)
			g, n := binary.BigEndian.Uint64(rec), binary.BigEndian.Uint64(rec[8:])
			require.Less(t, g, uint64(goroutines))
			if !bytes.Equal(selfTest(nil, g, n), rec) {
				require.Fail(t, "spoilt", "record %d of goroutine %d: % x", n, g, rec)
			}
			if seen[g][n] {
				require.Fail(t, "twice", "record %d of goroutine %d", n, g)
			}
			seen[g][n] = true
		}
		require.NoError(t, <-finished)
		require.Empty(t, failures)
		for g := range seen {
			require.Len(t, seen[g], each, fmt.Sprint("goroutine ", g))
		}
		t.Log(refused.Load(), "refused")
	}
}
