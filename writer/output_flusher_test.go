package writer

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/shuffle"
)

func TestFlusherFlushesUntilItIsStopped(t *testing.T) {
	var flushes atomic.Int32
	f := startFlusher(time.Microsecond, func() error { flushes.Add(1); return nil })
	require.Eventually(t, func() bool { return flushes.Load() >= 3 }, time.Minute, time.Millisecond)
	f.stop()
	after := flushes.Load()
	require.NoError(t, f.err())
	require.Equal(t, after, flushes.Load(), "stop waits for it")
}

func TestFlusherEndsWithAnErrorThatTheNextEmitReturns(t *testing.T) {
	broken := errors.New("broken")
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 8, SegmentSize: 64})
	w, err := New(link.Partition, shuffle.Bytes{}, Forward[[]byte](), WithBufferTimeout(FlushNever))
	require.NoError(t, err)
	flushes := 0
	w.flusher = startFlusher(time.Microsecond, func() error { flushes++; return broken })
	<-w.flusher.done
	require.Equal(t, 1, flushes, "it has ended by itself")
	require.ErrorIs(t, w.Emit(context.Background(), make([]byte, 100)), broken)
	require.ErrorIs(t, w.Broadcast(context.Background(), make([]byte, 100)), broken)
	for range 64/5 + 1 { // the short way looks when a buffer is full
		if err = w.Emit(context.Background(), []byte("x")); err != nil {
			break
		}
	}
	require.ErrorIs(t, err, broken)
	require.NoError(t, w.Close())
}

func TestFlushersOfOneIntervalShareAGoroutineAndNothingElse(t *testing.T) {
	const interval = 50 * time.Microsecond
	var flushes atomic.Int32
	good := startFlusher(interval, func() error { flushes.Add(1); return nil })
	bad := startFlusher(interval, func() error { return errors.New("broken") })
	require.Same(t, good.group, bad.group)
	<-bad.done
	require.ErrorContains(t, bad.err(), "output flusher: broken")
	after := flushes.Load()
	require.Eventually(t, func() bool { return flushes.Load() > after }, time.Minute, time.Millisecond)
	bad.stop() // it has ended by itself
	good.stop()
	require.NoError(t, good.err())

	another := startFlusher(interval, func() error { return nil })
	require.NotSame(t, good.group, another.group, "an empty group is gone")
	another.stop()
}
