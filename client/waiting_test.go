package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestBackPressureAndIdleTimeAreShownWhileTheyLast(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	idle := openOne(t, consumer, shuffle.NewPartitionID(), 0)
	ctx, cancel := context.WithCancel(testContext(t))
	ended := make(chan error, 2)
	go func() {
		for {
			if err := p.EmitRecord(ctx, framed("nobody reads this"), 0); err != nil {
				ended <- err
				return
			}
		}
	}()
	go func() {
		_, err := idle.Next(ctx)
		ended <- err
	}()
	require.Eventually(t, func() bool { return !p.IsAvailable() }, patience, time.Millisecond)

	// Twice: what is shown while the waits last goes on growing.
	var before shuffle.PartitionInfo
	var totals = d.Snapshot().Totals
	for range 2 {
		require.Eventually(t, func() bool {
			rows, err := consumer.List(testContext(t))
			require.NoError(t, err)
			now := d.Snapshot().Totals
			if len(rows) != 1 || rows[0].BackPressured <= before.BackPressured ||
				now.BackPressured <= totals.BackPressured || now.ConsumerIdle <= totals.ConsumerIdle {
				return false
			}
			before, totals = rows[0], now
			return true
		}, patience, time.Millisecond)
		require.GreaterOrEqual(t, p.BackPressured(), before.BackPressured)
	}
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
	require.ErrorIs(t, <-ended, context.Canceled)
	require.NoError(t, p.Close())
	waited := p.BackPressured()
	require.NoError(t, idle.Close())
	d.requireIdle(t)
	require.Equal(t, waited, d.Snapshot().Totals.BackPressured, "what has ended stays counted")
}

func TestWaitOfADeadProducerDoesNotGrow(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	gate := openOne(t, consumer, s.ID, 0)
	p := create(t, producer, s)
	ended := make(chan error, 1)
	go func() {
		for {
			if err := p.EmitRecord(testContext(t), framed("read slowly"), 0); err != nil {
				ended <- err
				return
			}
		}
	}()
	held, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.BackPressured() > 0 && d.Snapshot().Totals.BackPressured > 0 },
		patience, time.Millisecond)
	require.NoError(t, producer.conn.Close()) // as the kernel does for a killed process
	require.Eventually(t, func() bool { return d.Snapshot().Partitions[0].State == "lost" }, patience, time.Millisecond)
	waited := d.Snapshot().Totals.BackPressured
	require.Positive(t, waited)
	time.Sleep(2 * time.Millisecond)
	require.Equal(t, waited, d.Snapshot().Totals.BackPressured)
	require.ErrorIs(t, <-ended, shuffle.ErrDaemonLost)
	require.NoError(t, held.Release())
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}
