package writer_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/leaktest"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
	"shuffled/writer"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// How long a condition may take to come true before a test fails, and how often
// it is looked at.
const (
	wait = time.Minute
	tick = time.Millisecond
)

var overMemories = linktest.OverMemories

// canceled is a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// newWriter returns a writer of byte slices that never flushes by itself, unless
// options say otherwise. The end of the test closes it.
func newWriter(t testing.TB, link *linktest.Link, selector writer.ChannelSelector[[]byte],
	opts ...writer.Option) *writer.RecordWriter[[]byte] {
	t.Helper()
	opts = append([]writer.Option{writer.WithBufferTimeout(writer.FlushNever)}, opts...)
	w, err := writer.New(link.Partition, shuffle.Bytes{}, selector, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() }) // the test may have closed it
	return w
}

// toFirst sends every record to the first of several subpartitions.
func toFirst[T any]() writer.ChannelSelector[T] {
	return writer.Custom(func(T, int) int { return 0 })
}

// framedRecord is a record that takes n bytes with its length.
func framedRecord(n int) []byte { return bytes.Repeat([]byte{byte(n)}, n-4) }

// framed is a record behind its length.
func framed(rec []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(rec))), rec...)
}

// take returns what a view has next, copied; nil if there is nothing.
func take(t testing.TB, v *partition.SubpartitionView) []byte {
	t.Helper()
	var b memseg.Buffer
	ok, err := v.Take(&b)
	require.NoError(t, err)
	if !ok {
		return nil
	}
	content := bytes.Clone(b.Bytes())
	require.NoError(t, b.Release())
	return content
}

func queued(link *linktest.Link) []int {
	var n []int
	for i := range link.Partition.NumSubpartitions() {
		n = append(n, link.Partition.Subpartition(i).QueuedBuffers())
	}
	return n
}
