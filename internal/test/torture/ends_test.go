package torture

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/partition"
	"shuffled/internal/test/daemontest"
	"shuffled/reader"
	"shuffled/shuffle"
)

// stoppedAtItsEnd is a partition of one record with its consumer, whose daemon was
// stopped, and which has published its end since. The channel gets what Finish
// returns, which waits for the daemon until ctx ends.
func stoppedAtItsEnd(t *testing.T, d *daemontest.Daemon, ctx context.Context) (shuffle.ResultPartition,
	shuffle.InputGate, <-chan error) {
	t.Helper()
	all, producer := dial(t, d)
	_, consumer := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := producer.CreatePartition(all, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() }) // the test may have closed it
	gate, err := consumer.OpenGate(all, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = gate.Close() })
	require.NoError(t, p.EmitRecord(all, []byte("\x00\x00\x00\x06before"), 0))
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(all)
	require.NoError(t, err)
	require.NoError(t, b.Release())
	_, err = producer.List(all) // it has heard that its consumer is attached
	require.NoError(t, err)

	daemontest.Stop(t, d.PID())
	require.NoError(t, p.EmitRecord(all, []byte("\x00\x00\x00\x05after"), 0))
	finished := make(chan error, 1)
	go func() { finished <- p.Finish(ctx) }()
	require.Eventually(t, func() bool {
		// the open buffer and the end, at least
		return p.(*partition.ResultPartition).Subpartition(0).QueuedBuffers() >= 2
	}, daemontest.Patience, time.Millisecond)
	return p, gate, finished
}

// requireWhole reads what is left of the stream and its end.
func requireWhole(t *testing.T, gate shuffle.InputGate) {
	t.Helper()
	var got []string
	for rec, err := range reader.Records(context.Background(), gate, shuffle.Strings{}) {
		require.NoError(t, err)
		got = append(got, rec)
	}
	require.Equal(t, []string{"after"}, got)
	_, err := gate.Next(context.Background())
	require.Equal(t, io.EOF, err)
}

func TestFinishIsAcknowledgedLateByADaemonThatWasStopped(t *testing.T) {
	d := startDaemon(t)
	ctx, cancel := context.WithCancel(context.Background())
	p, gate, finished := stoppedAtItsEnd(t, d, ctx)
	requireWhole(t, gate)
	cancel()
	err := <-finished
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
	require.NotErrorIs(t, err, shuffle.ErrDaemonLost)
	require.ErrorIs(t, p.Fail(context.Background(), errors.New("no")), shuffle.ErrFinished)
	d.Signal(unix.SIGCONT)
	require.NoError(t, p.Finish(context.Background()))
	require.ErrorIs(t, p.Finish(context.Background()), shuffle.ErrFinished)
}

func TestDaemonKilledBetweenTheEndAndItsAcknowledgement(t *testing.T) {
	for name, read := range map[string]bool{"all is read": true, "nothing is read": false} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t)
			p, gate, finished := stoppedAtItsEnd(t, d, context.Background())
			if read {
				requireWhole(t, gate)
			}
			d.Signal(unix.SIGKILL)
			err := <-finished
			if read {
				require.NoError(t, err, "both sides say whole")
				return
			}
			require.ErrorIs(t, err, shuffle.ErrDaemonLost)
			require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
			requireWhole(t, gate)
			require.NoError(t, p.Finish(context.Background()), "what was not known then is known now")
		})
	}
}

func TestProducerThatEndsItsProcessInsteadOfFinishingIsNoEnd(t *testing.T) {
	d := startDaemon(t)
	ctx, c := dial(t, d)
	plan := simplePlan(0)
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: plan.Partition}}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = gate.Close() })
	w := startWorker(t, "producer", d.Socket, workerPlan{Producer: plan})
	w.waitFor(committed, ctx.Done())
	w.signal(unix.SIGKILL)
	err = nil
	for _, err = range reader.Records(ctx, gate, shuffle.Bytes{}) {
		if err != nil {
			break
		}
	}
	require.ErrorIs(t, err, shuffle.ErrProducerLost)
}
