package client

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/linktest"
	"shuffled/shuffle"
)

// residentBytes returns how much memory of this process, which is producer,
// consumer and daemon here, is in RAM. Shared pages count.
func residentBytes(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/statm")
	require.NoError(t, err)
	pages, err := strconv.ParseInt(strings.Fields(string(b))[1], 10, 64)
	require.NoError(t, err)
	return pages * int64(os.Getpagesize())
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
		return err == nil && info.SegmentsHeld == info.PoolMax && p.BytesOut() == int64(info.PoolMax*testConfig().SegmentSize)
	}, patience, time.Millisecond)
	stop()
	require.ErrorIs(t, <-blocked, context.Canceled)
	require.Positive(t, p.BackPressured())
	require.LessOrEqual(t, p.BytesOut(), int64(info.PoolMax*testConfig().SegmentSize))

	written, resident := p.BytesOut(), residentBytes(t)
	for range 1000 {
		require.ErrorIs(t, p.EmitRecord(linktest.Impatient(), record, 0), context.Canceled)
	}
	require.Equal(t, written, p.BytesOut())
	require.Less(t, residentBytes(t)-resident, int64(4<<20), "memory grows while the producer is blocked")

	require.NoError(t, p.Fail(ctx, shuffle.ErrClosed))
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}
