package client

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// A consumer that is slower than the grace finds zeros, and is told why.
func TestConsumerThatAnOperatorsReleaseFindsReadingIsToldOfIt(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	gate := openOne(t, consumer, s.ID, 0)
	for range 400 { // over several buffers
		require.NoError(t, p.EmitRecord(testContext(t), framed("a record of the partition"), 0))
	}
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, producer.Withdraw(testContext(t), s.ID, uint32(os.Geteuid())))
	require.Eventually(t, func() bool { return b.Bytes()[3] == 0 }, patience, time.Millisecond)
	require.NoError(t, b.Release())
	for err == nil || !errors.Is(err, shuffle.ErrPartitionReleased) {
		if b, err = gate.Next(testContext(t)); err == nil {
			require.NoError(t, b.Release())
			continue
		}
		require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
	}
	_, err = gate.Next(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrIncomplete)
}
