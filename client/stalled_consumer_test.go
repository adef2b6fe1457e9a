package client

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
	// writeUntilBlocked emits until a record has to wait for the consumer.
	writeUntilBlocked := func() {
		for {
			ctx, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			blockedBefore := p.BackPressured()
			err := p.EmitRecord(ctx, record, 0)
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Greater(t, p.BackPressured(), blockedBefore)
				return
			}
		}
	}
	writeUntilBlocked()
	info, err := c.Inspect(ctx, s.ID)
	require.NoError(t, err)
	require.Equal(t, info.PoolMax, info.SegmentsHeld)
	require.LessOrEqual(t, p.BytesOut(), int64(info.PoolMax*testConfig().SegmentSize))

	written, resident := p.BytesOut(), residentBytes(t)
	for range 20 {
		writeUntilBlocked()
	}
	require.Equal(t, written, p.BytesOut())
	require.Less(t, residentBytes(t)-resident, int64(4<<20), "memory grows while the producer is blocked")

	require.NoError(t, p.Fail(ctx, shuffle.ErrClosed))
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}
