package client

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/shuffle"
)

// heldBytes returns how much this process, which is producer, consumer and daemon here,
// holds: of its heap, and of shared memory by the daemon's word.
func heldBytes(d *testDaemon) int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc) + d.Snapshot().BackedBytes
}

func TestStalledConsumerBoundsWhatItsProducerWrites(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	ctx := testContext(t)
	s := spec(1)
	p, err := c.CreatePartition(ctx, s)
	require.NoError(t, err)
	gate, err := c.OpenGate(ctx, gateOf(s.ID, 0)) // it never reads
	require.NoError(t, err)

	// A whole number of records fills a segment: the one that has to wait is not cut.
	record := framed(strings.Repeat("x", 1020))
	writing, stop := context.WithCancel(ctx)
	blocked := make(chan error, 1)
	go func() {
		for {
			if err := p.EmitRecord(writing, record, 0); err != nil {
				blocked <- err
				return
			}
		}
	}()
	var info shuffle.PartitionInfo
	require.Eventually(t, func() bool { // it has all it will be granted, and waits
		info, err = c.Inspect(ctx, s.ID)
		return err == nil && info.SegmentsHeld == info.PoolMax &&
			p.BytesOut() == int64(info.PoolMax*testConfig().SegmentSize)
	}, patience, time.Millisecond)
	stop()
	require.ErrorIs(t, <-blocked, context.Canceled)
	require.Positive(t, p.BackPressured())
	require.LessOrEqual(t, p.BytesOut(), int64(info.PoolMax*testConfig().SegmentSize))

	written, held := p.BytesOut(), heldBytes(d)
	for range 1000 {
		require.ErrorIs(t, p.EmitRecord(linktest.Impatient(), record, 0), context.Canceled)
	}
	require.Equal(t, written, p.BytesOut())
	require.Less(t, heldBytes(d)-held, int64(512<<10), "memory grows while the producer is blocked")

	require.NoError(t, p.Fail(ctx, shuffle.ErrClosed))
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}
