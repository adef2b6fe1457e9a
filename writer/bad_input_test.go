package writer_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/shuffle"
	"shuffled/writer"
)

func TestNewWriterOfNothingIsRefused(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 64})
	p := link.Partition
	type selector = writer.ChannelSelector[[]byte]
	type codec = shuffle.Codec[[]byte]
	for name, row := range map[string]struct {
		partition shuffle.ResultPartition
		codec     codec
		selector  selector
		options   []writer.Option
		names     string
	}{
		"partition": {nil, shuffle.Bytes{}, writer.Forward[[]byte](), nil, "partition"},
		"nil partition": {(*partition.ResultPartition)(nil), shuffle.Bytes{}, writer.Forward[[]byte](), nil,
			"partition"},
		"foreign": {wrapped{p}, shuffle.Bytes{}, writer.Forward[[]byte](), nil,
			"writer_test.wrapped is no partition of client.CreatePartition"},
		"zero partition": {&partition.ResultPartition{}, shuffle.Bytes{}, writer.Rebalance[[]byte](), nil, "partition"},
		"codec":          {p, nil, writer.Forward[[]byte](), nil, "codec"},
		"typed codec":    {p, (*shuffle.Bytes)(nil), writer.Forward[[]byte](), nil, "codec"},
		"selector":       {p, shuffle.Bytes{}, nil, nil, "selector"},
		"typed selector": {p, shuffle.Bytes{}, (*nilSelector)(nil), nil, "selector"},
		"no function":    {p, shuffle.Bytes{}, writer.Custom[[]byte](nil), nil, "custom selector"},
		"no hash":        {p, shuffle.Bytes{}, writer.KeyGroups[[]byte](nil, 0), nil, "hash function"},
		"option":         {p, shuffle.Bytes{}, writer.Forward[[]byte](), []writer.Option{nil}, "option"},
	} {
		_, err := writer.New(row.partition, row.codec, row.selector, row.options...)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, name)
		require.ErrorContains(t, err, row.names)
	}
	w, err := writer.New(p, shuffle.Bytes{}, writer.Forward[[]byte]())
	require.NoError(t, err, "a refused writer has not taken the partition")
	require.NoError(t, w.Close())
}

// A wrapped partition is one that somebody else implements.
type wrapped struct{ shuffle.ResultPartition }

type nilSelector struct{ n int }

func (s *nilSelector) Setup(n int) error { s.n = n; return nil }

func (s *nilSelector) Select([]byte) int { return s.n - 1 }

func TestSecondWriterOfAPartitionIsRefused(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 4, SegmentSize: 64})
	_, err := writer.New(link.Partition, shuffle.Bytes{}, writer.Forward[[]byte]())
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.ErrorContains(t, err, "forward selector for 2 subpartitions")
	w := newWriter(t, link, writer.Rebalance[[]byte]())
	_, err = writer.New(link.Partition, shuffle.Bytes{}, writer.Rebalance[[]byte]())
	require.ErrorIs(t, err, shuffle.ErrConcurrentUse)
	require.NoError(t, w.Close())
	_, err = writer.New(link.Partition, shuffle.Bytes{}, writer.Rebalance[[]byte]())
	require.ErrorIs(t, err, shuffle.ErrClosed)
}

func TestBufferTimeoutWithoutAUnitIsRefused(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 64})
	for _, timeout := range []time.Duration{1, 100, time.Microsecond, time.Millisecond - 1} {
		_, err := writer.New(link.Partition, shuffle.Bytes{}, writer.Forward[[]byte](),
			writer.WithBufferTimeout(timeout))
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, timeout)
	}
	_, err := writer.New(link.Partition, shuffle.Bytes{}, writer.Forward[[]byte](), writer.WithBufferTimeout(100))
	require.ErrorContains(t, err, "100*time.Millisecond")
	w, err := writer.New(link.Partition, shuffle.Bytes{}, writer.Forward[[]byte](),
		writer.WithBufferTimeout(time.Millisecond))
	require.NoError(t, err)
	require.NoError(t, w.Close())
}

// A codec of strings that goes wrong where it is told to.
type broken struct {
	shuffle.Strings
	size func(rec string) int
	fill func(dst []byte, rec string) []byte
}

func (c *broken) Size(rec string) int {
	if c.size != nil {
		return c.size(rec)
	}
	return len(rec)
}

func (c *broken) Append(dst []byte, rec string) []byte {
	if c.fill != nil {
		return c.fill(dst, rec)
	}
	return append(dst, rec...)
}

func TestCodecThatLiesOrPanicsLeavesNothingBehind(t *testing.T) {
	panics := func(f func() error) (err error) {
		defer func() {
			if r := recover(); r != nil {
				err = r.(error)
			}
		}()
		return f()
	}
	bug := errors.New("a bug of the codec")
	for name, fault := range map[string]struct {
		codec broken
		want  error
		text  string
	}{
		"panics in Size":   {broken{size: func(string) int { panic(bug) }}, bug, ""},
		"panics in Append": {broken{fill: func([]byte, string) []byte { panic(bug) }}, bug, ""},
		"panics half way": {broken{fill: func(dst []byte,
			_ string) []byte {
			_ = append(dst, "half"...)
			panic(bug)
		}}, bug, ""},
		"appends more": {broken{fill: func(dst []byte,
			rec string) []byte {
			return append(dst, rec+"more"...)
		}}, shuffle.ErrCorruptRecord, "promised"},
		"appends less": {broken{fill: func(dst []byte, rec string) []byte { return append(dst, rec[1:]...) }},
			shuffle.ErrCorruptRecord, "promised"},
		"returns nil": {broken{fill: func([]byte, string) []byte { return nil }}, shuffle.ErrCorruptRecord,
			"appended 0"},
		"returns another slice": {broken{fill: func(_ []byte, rec string) []byte { return []byte(rec) }},
			shuffle.ErrCorruptRecord, "another slice"},
	} {
		for way, size := range map[string]int{"in an open buffer": 20, "in a new buffer": 60, "over buffers": 300} {
			for _, all := range []bool{false, true} {
				codec := &broken{}
				link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 20,
					SegmentSize: 64})
				w, err := writer.New(link.Partition, codec, toFirst[string](),
					writer.WithBufferTimeout(writer.FlushNever))
				require.NoError(t, err)
				view := link.View(0)
				emit := w.Emit
				if all {
					emit = w.Broadcast
				}
				ctx := context.Background()
				require.NoError(t, emit(ctx, "before"))
				before := w.Counters().Records
				codec.size, codec.fill = fault.codec.size, fault.codec.fill
				err = panics(func() error { return emit(ctx, string(bytes.Repeat([]byte{'x'}, size))) })
				require.ErrorIs(t, err, fault.want, "%s, %s", name, way)
				require.ErrorContains(t, err, fault.text)
				codec.size, codec.fill = nil, nil
				require.Equal(t, before, w.Counters().Records)
				require.NoError(t, emit(ctx, "after"), "%s, %s: the writer goes on", name, way)
				require.NoError(t, w.Finish(ctx))
				var got []byte
				for content := take(t, view); content != nil; content = take(t, view) {
					got = append(got, content...)
				}
				want := append(framed([]byte("before")), framed([]byte("after"))...)
				require.Equal(t, string(want), string(got[:len(got)-4]), "%s, %s: then the end", name, way)
			}
		}
	}
}

func TestCodecThatUsesItsWriterIsRefusedOnTheLongWay(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 20, SegmentSize: 64})
	codec := &broken{}
	w, err := writer.New(link.Partition, codec, writer.Forward[string](), writer.WithBufferTimeout(writer.FlushNever))
	require.NoError(t, err)
	long := string(make([]byte, 200))
	var inner error
	codec.fill = func(dst []byte, rec string) []byte {
		codec.fill = nil
		inner = w.Broadcast(context.Background(), long)
		return append(dst, rec...)
	}
	require.NoError(t, w.Emit(context.Background(), long))
	require.ErrorIs(t, inner, shuffle.ErrConcurrentUse)
	require.NoError(t, w.Finish(context.Background()))
	require.EqualValues(t, 1, w.Counters().Records)
}

func TestCodecThatUsesItsWriterIsRefused(t *testing.T) {
	ctx := context.Background()
	for name, use := range map[string]func(w *writer.RecordWriter[string]) error{
		"emits": func(w *writer.RecordWriter[string]) error { return w.Emit(ctx, "inner") },
		"emits a long one": func(w *writer.RecordWriter[string]) error {
			return w.EmitTo(ctx, string(make([]byte, 200)), 0)
		},
		"emits to another": func(w *writer.RecordWriter[string]) error { return w.EmitTo(ctx, "inner", 1) },
		"broadcasts":       func(w *writer.RecordWriter[string]) error { return w.Broadcast(ctx, "inner") },
		"broadcasts an event": func(w *writer.RecordWriter[string]) error {
			return w.BroadcastEvent(ctx, shuffle.CustomEvent{})
		},
		"finishes": func(w *writer.RecordWriter[string]) error { return w.Finish(ctx) },
	} {
		for _, depth := range []int{0, 10_000} { // of the codec's stack, which moves for it
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 20,
				SegmentSize: 64})
			codec := &broken{}
			w, err := writer.New(link.Partition, codec, toFirst[string](), writer.WithBufferTimeout(writer.FlushNever))
			require.NoError(t, err)
			view := link.View(0)
			require.NoError(t, w.Emit(ctx, "before"))
			codec.fill = func([]byte, string) []byte { panic("a bug of the codec") }
			require.Panics(t, func() { _ = w.Emit(ctx, "lost") })
			require.NoError(t, w.Flush())
			var inner error
			codec.fill = func(dst []byte, rec string) []byte {
				codec.fill = nil
				inner = deep(depth, func() error { return use(w) })
				return append(dst, rec...)
			}
			require.NoError(t, w.Emit(ctx, "outer"), name)
			require.ErrorIs(t, inner, shuffle.ErrConcurrentUse, name)
			require.ErrorContains(t, inner, "*writer_test.broken uses the writer that it appends a record for")
			require.NoError(t, w.Emit(ctx, "after"), name)
			require.NoError(t, w.Finish(ctx))
			var got []byte
			for content := take(t, view); content != nil; content = take(t, view) {
				got = append(got, content...)
			}
			want := slices.Concat(framed([]byte("before")), framed([]byte("outer")), framed([]byte("after")))
			require.Equal(t, string(want), string(got[:len(got)-4]), "%s: then the end", name)
			require.EqualValues(t, 3, w.Counters().Records)
		}
	}
}

// deep calls f below so many frames.
func deep(frames int, f func() error) error {
	if frames == 0 {
		return f()
	}
	return deep(frames-1, f)
}

func TestSecondGoroutineOfAWriterIsRefused(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 3, SegmentSize: 64})
		w, err := writer.New(link.Partition, shuffle.Strings{}, toFirst[string](),
			writer.WithBufferTimeout(writer.FlushNever))
		require.NoError(t, err)
		view := link.View(0)
		ctx := context.Background()
		long := string(bytes.Repeat([]byte{'a'}, 5*64-4))
		blocked := make(chan error)
		go func() { blocked <- w.Emit(ctx, long) }()
		require.Eventually(t, link.IsParked, wait, tick)
		_ = queued(link) // its locks tell the race detector what shared memory does not: the writer sleeps
		other := string(bytes.Repeat([]byte{'b'}, 300))
		for name, err := range map[string]error{
			"emit": w.Emit(ctx, other), "emit to another": w.EmitTo(ctx, other, 1), "short": w.EmitTo(ctx, "b", 1),
			"broadcast": w.Broadcast(ctx, "b"), "event": w.BroadcastEvent(ctx, shuffle.CustomEvent{}),
			"finish": w.Finish(ctx),
		} {
			require.ErrorIs(t, err, shuffle.ErrConcurrentUse, name)
		}
		require.NoError(t, w.Flush(), "anybody may flush")
		var got []byte
		for len(got) < len(long)+4 {
			got = append(got, take(t, view)...)
		}
		require.NoError(t, <-blocked)
		require.Equal(t, string(framed([]byte(long))), string(got), "it is not spoilt")
		require.NoError(t, w.Emit(ctx, "b"))
		require.NoError(t, w.Finish(ctx))
		require.Equal(t, string(framed([]byte("b"))), string(take(t, view)))
	})
}

func TestEmitSeesAContextThatHasEndedWithEachNewSegment(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8, SegmentSize: 64})
		w := newWriter(t, link, writer.Forward[[]byte]())
		view := link.View(0)
		emitted := 0
		var err error
		for err = error(nil); err == nil; emitted++ {
			ctx := canceled()
			if emitted == 0 {
				ctx = context.Background()
			}
			err = w.Emit(ctx, framedRecord(16))
		}
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 4+1, emitted, "what fits the open buffer, and the one that was refused")
		require.ErrorIs(t, w.Emit(canceled(), framedRecord(300)), context.Canceled)
		require.ErrorIs(t, w.Broadcast(canceled(), framedRecord(16)), context.Canceled)
		require.EqualValues(t, 4, w.Counters().Records)
		require.NoError(t, w.Emit(context.Background(), framedRecord(16)))
		require.NoError(t, w.Finish(context.Background()))
		require.Len(t, take(t, view), 64)
		require.Len(t, take(t, view), 16)
	})
}
