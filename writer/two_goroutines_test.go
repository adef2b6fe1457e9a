package writer_test

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A held codec is one that stays in a record until it is let go.
type held struct {
	shuffle.Strings
	in, out chan struct{}
}

func newHeld() *held { return &held{in: make(chan struct{}), out: make(chan struct{})} }

func (c *held) Append(dst []byte, rec string) []byte {
	if rec == "held" {
		c.in <- struct{}{}
		<-c.out
	}
	return append(dst, rec...)
}

// Whatever others do while a record is being put into an open buffer, it is whole, and
// they are told before they have spoilt anything.
func TestOthersAreRefusedWhileARecordIsPutIntoAnOpenBuffer(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		ctx := context.Background()
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 12, SegmentSize: 64})
		codec := newHeld()
		w, err := writer.New(link.Partition, codec, toFirst[string](), writer.WithBufferTimeout(writer.FlushNever))
		require.NoError(t, err)
		view, p := link.View(0), link.Partition
		emitted := make(chan error)
		go func() {
			if err := w.Emit(ctx, "before"); err != nil {
				emitted <- err
				return
			}
			emitted <- w.Emit(ctx, "held")
		}()
		<-codec.in
		_, reserved := p.Reserve(ctx, 0, 1)
		for name, err := range map[string]error{
			"emit": w.Emit(ctx, "x"), "emit to another": w.EmitTo(ctx, "x", 1),
			"long":      w.Emit(ctx, string(make([]byte, 100))),
			"broadcast": w.Broadcast(ctx, "x"), "event": w.BroadcastEvent(ctx, shuffle.CustomEvent{}),
			"finish": w.Finish(ctx),
			"record": p.EmitRecord(ctx, framed([]byte("x")), 0), "reserve": reserved,
		} {
			require.ErrorIs(t, err, shuffle.ErrConcurrentUse, name)
		}
		require.NoError(t, w.Flush(), "anybody may flush")
		require.Equal(t, "before", string(take(t, view)[4:]), "it does not show what is not whole")
		codec.out <- struct{}{}
		require.NoError(t, <-emitted)
		require.NoError(t, w.Emit(ctx, "after"), "one goroutine after the other")
		require.NoError(t, w.Finish(ctx))
		require.Equal(t, string(framed([]byte("held")))+string(framed([]byte("after"))), string(take(t, view)))
		require.EqualValues(t, 3, w.Counters().Records)
	})
}

func TestWriterIsClosedUnderARecord(t *testing.T) {
	for name, end := range map[string]func(w *writer.RecordWriter[string]) error{
		"closed": func(w *writer.RecordWriter[string]) error { return nil },
		"failed": func(w *writer.RecordWriter[string]) error {
			return w.Fail(context.Background(), errors.New("cause"))
		},
	} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 4,
			SegmentSize: 4096})
		codec := newHeld()
		w, err := writer.New(link.Partition, codec, writer.Forward[string](),
			writer.WithBufferTimeout(writer.FlushNever))
		require.NoError(t, err)
		view := link.View(0)
		emitted := make(chan []error)
		go func() {
			emitted <- []error{
				w.Emit(context.Background(), "before"), w.Emit(context.Background(), "held"),
				w.Emit(context.Background(), "after"),
			}
		}()
		<-codec.in
		require.NoError(t, w.Flush())
		require.NoError(t, end(w), name)
		require.NoError(t, w.Close(), name)
		codec.out <- struct{}{}
		errs := <-emitted
		require.NoError(t, errs[0])
		require.ErrorIs(t, errs[2], shuffle.ErrClosed, name)
		require.Equal(t, "before", string(take(t, view)[4:]), name)
		require.Nil(t, take(t, view), "what was written after Close is for nobody")
	}
}

func TestWriterIsClosedByAnotherGoroutine(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, end := range []func(p *partition.ResultPartition) error{
			func(*partition.ResultPartition) error { return nil },
			func(p *partition.ResultPartition) error { return p.Fail(context.Background(), errors.New("cause")) },
			func(p *partition.ResultPartition) error { return p.Release(context.Background()) },
		} {
			link := linktest.New(t, linktest.Config{
				Memory: memory, Subpartitions: 1, Segments: 4, SegmentSize: 1 << 20,
				OnLost: shuffle.DiscardOnConsumerLost,
			})
			link.Partition.DetachConsumer(0, false, "nobody reads")
			w := newWriter(t, link, writer.Forward[[]byte]())
			begun, ended := make(chan struct{}), make(chan error)
			go func() {
				rec, err := make([]byte, 100), error(nil)
				for n := 0; err == nil; n++ {
					if n == 1000 {
						close(begun)
					}
					err = w.Emit(context.Background(), rec)
				}
				ended <- err
			}()
			<-begun
			require.NoError(t, end(link.Partition))
			require.NoError(t, w.Close())
			err := <-ended
			require.True(t, errors.Is(err, shuffle.ErrClosed) || errors.Is(err, shuffle.ErrPartitionFailed) ||
				errors.Is(err, shuffle.ErrPartitionReleased), err)
		}
	})
}

// A codec that panics leaves nothing behind, but nobody else can know that it is not
// at work any more.
func TestGoroutineWhoseCodecHasPanickedGoesOnAndOthersDoNot(t *testing.T) {
	ctx := context.Background()
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4, SegmentSize: 256})
	codec := &broken{}
	w, err := writer.New(link.Partition, codec, writer.Forward[string](), writer.WithBufferTimeout(writer.FlushNever))
	require.NoError(t, err)
	next, done := make(chan struct{}), make(chan error)
	go func() {
		if err := w.Emit(ctx, "before"); err != nil {
			done <- err
			return
		}
		func() {
			defer func() { _ = recover() }()
			codec.fill = func([]byte, string) []byte { panic("a bug") }
			_ = w.Emit(ctx, "lost")
		}()
		done <- nil
		<-next
		done <- w.Emit(ctx, "after")
	}()
	require.NoError(t, <-done)
	codec.fill = nil
	require.ErrorIs(t, w.Emit(ctx, "x"), shuffle.ErrConcurrentUse)
	require.ErrorIs(t, w.Finish(ctx), shuffle.ErrConcurrentUse)
	next <- struct{}{}
	require.NoError(t, <-done)
	require.NoError(t, w.Finish(ctx))
	require.Equal(t, string(framed([]byte("before")))+string(framed([]byte("after"))), string(take(t, link.View(0))))
}

// Goroutines that take turns, under a lock of their own, lose nothing and keep the
// order; each is let into the buffers that it begins.
func TestGoroutinesThatTakeTurnsWriteOneStream(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		const goroutines, each = 4, 2000
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8, SegmentSize: 256})
		w := newWriter(t, link, writer.Forward[[]byte]())
		var mu sync.Mutex
		var group sync.WaitGroup
		written := 0
		var failed error
		for range goroutines {
			group.Go(func() {
				for range each {
					mu.Lock()
					rec := binary.BigEndian.AppendUint64(nil, uint64(written))
					if written++; failed == nil {
						failed = w.Emit(context.Background(), rec)
					}
					mu.Unlock()
				}
			})
		}
		finished := make(chan error)
		go func() {
			group.Wait()
			finished <- errors.Join(failed, w.Finish(context.Background()))
		}()
		read := uint64(0)
		for rec, err := range reader.Records(context.Background(), link.Gate(0), shuffle.Bytes{}) {
			require.NoError(t, err)
			require.Equal(t, read, binary.BigEndian.Uint64(rec))
			read++
		}
		require.NoError(t, <-finished)
		require.EqualValues(t, goroutines*each, read)
	})
}
