package torture

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/test/daemontest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// dial connects within a test, until its end.
func dial(t *testing.T, d *daemontest.Daemon) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	t.Cleanup(cancel)
	c, err := client.Dial(ctx, client.WithSocket(d.Socket))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return ctx, c
}

// simplePlan is a producer of many records for one consumer.
func simplePlan(holdAt uint64) *producerPlan {
	return &producerPlan{
		Partition: shuffle.NewPartitionID(), Streams: []stream{{Seed: 1, MaxSize: 1000}}, Records: 100_000,
		Mode: emitting, Timeout: writer.FlushNever, FlushEvery: 100, HoldAt: holdAt,
	}
}

// requireState waits until a partition is in a state: a worker's messages to the
// daemon may be under way when it reports to the test.
func requireState(t *testing.T, ctx context.Context, c *client.Client, id shuffle.PartitionID, state string) {
	t.Helper()
	require.Eventually(t, func() bool {
		info, err := c.Inspect(ctx, id)
		return err == nil && info.State == state
	}, daemontest.Patience, time.Millisecond)
}

func TestStoppedProducerStaysAttachedAndIsShown(t *testing.T) {
	d := startDaemon(t)
	ctx, c := dial(t, d)
	plan := simplePlan(0)
	w := startWorker(t, "producer", d.Socket, workerPlan{Producer: plan})
	w.waitFor(committed, ctx.Done())
	requireState(t, ctx, c, plan.Partition, "running")
	daemontest.Stop(t, w.pid())

	// The consumer comes when the producer is stopped already, and gets all that
	// was committed.
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: plan.Partition}}})
	require.NoError(t, err)
	got, known := uint64(0), w.committedRecords()
	for rec, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
		require.NoError(t, err)
		require.NoError(t, plan.Streams[0].check(rec, got))
		if got++; got == known {
			break
		}
	}

	info, err := c.Inspect(ctx, plan.Partition)
	require.NoError(t, err)
	require.Equal(t, "running", info.State)
	require.True(t, info.ProducerAttached)
	require.Equal(t, int32(w.pid()), info.Producer.PID)
	require.Equal(t, "attached", info.SubpartitionInfo[0].State)
	require.Equal(t, 1.0, d.Metrics()[`shuffled_partitions{state="running",type="PIPELINED_BOUNDED"}`])
	require.True(t, w.running())

	w.signal(unix.SIGCONT)
	for rec, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
		require.NoError(t, err)
		require.NoError(t, plan.Streams[0].check(rec, got))
		got++
	}
	require.Equal(t, plan.Records, got)
	require.NoError(t, gate.Close())
	w.waitFor(done, ctx.Done())
	require.Empty(t, w.last.Outcome.Error)
}

func TestEveryCommittedRecordSurvivesItsProducer(t *testing.T) {
	d := startDaemon(t)
	ctx, c := dial(t, d)
	const holdAt = 100
	for _, mode := range []string{emitting, reserving} {
		plan := simplePlan(holdAt)
		plan.Mode, plan.FlushEvery, plan.Records = mode, 1, 1000
		gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: plan.Partition}}})
		require.NoError(t, err)
		w := startWorker(t, "producer", d.Socket, workerPlan{Producer: plan})
		w.waitFor(holding, ctx.Done())
		require.Equal(t, uint64(holdAt-1), w.committedRecords())
		require.Eventually(t, func() bool {
			info, err := c.Inspect(ctx, plan.Partition)
			return err == nil && info.SubpartitionInfo[0].State == "attached"
		}, daemontest.Patience, time.Millisecond)
		w.signal(unix.SIGKILL)
		got := uint64(0)
		for rec, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
			if err != nil {
				require.ErrorIs(t, err, shuffle.ErrProducerLost)
				break
			}
			require.NoError(t, plan.Streams[0].check(rec, got))
			got++
		}
		require.GreaterOrEqual(t, got, uint64(holdAt-1), mode)
		require.Less(t, got, uint64(holdAt+2), mode)
		for _, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
			require.ErrorIs(t, err, shuffle.ErrIncomplete, "nothing comes after the error")
			require.ErrorIs(t, err, shuffle.ErrProducerLost)
		}
		require.NoError(t, gate.Close())
	}
}

func TestKilledDaemonEndsTheWaitsOfItsClients(t *testing.T) {
	d := startDaemon(t)
	ctx, c := dial(t, d)
	mappings := memseg.LiveMappings()
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 2, BuffersPerChannel: 1,
		FloatingBuffers: 1})
	require.NoError(t, err)
	w, err := writer.New(p, shuffle.Bytes{}, writer.Custom(func([]byte, int) int { return 0 }))
	require.NoError(t, err)
	attached, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
	require.NoError(t, err)
	waiting, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: shuffle.NewPartitionID()}},
		Timeout: time.Hour})
	require.NoError(t, err)
	require.NoError(t, w.Emit(ctx, []byte("before")))
	require.NoError(t, w.Flush())
	b, err := attached.Next(ctx)
	require.NoError(t, err)

	waits := make(chan error, 3)
	wait := func(f func() error) { go func() { waits <- f() }() }
	wait(func() error { _, err := attached.Next(ctx); return err })
	wait(func() error { _, err := waiting.Next(ctx); return err })
	wait(func() error { // nobody reads subpartition 1
		for {
			if err := w.EmitTo(ctx, make([]byte, 8<<10), 1); err != nil {
				return err
			}
		}
	})
	require.Eventually(t, func() bool { return !p.IsAvailable() }, daemontest.Patience, time.Millisecond)
	d.Signal(unix.SIGKILL)
	for range cap(waits) {
		require.ErrorIs(t, <-waits, shuffle.ErrDaemonLost)
	}
	_, err = c.CreatePartition(ctx, shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	_, err = c.List(ctx)
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	require.Equal(t, "before", string(b.Bytes()[4:]), "what is held stays readable")
	require.NoError(t, b.Release())

	require.NoError(t, attached.Close())
	require.NoError(t, waiting.Close())
	require.NoError(t, w.Close())
	require.NoError(t, c.Close())
	require.Equal(t, mappings, memseg.LiveMappings())
}

func TestAttachedPairsGoOnWithoutTheDaemon(t *testing.T) {
	d := startDaemon(t)
	ctx, c := dial(t, d)
	plan := simplePlan(0)
	writing := startWorker(t, "producer", d.Socket, workerPlan{Producer: plan})
	writing.waitFor(committed, ctx.Done())
	daemontest.Stop(t, writing.pid()) // most is not written when the daemon ends
	consumer := &consumerPlan{Inputs: []shuffle.Input{{Partition: plan.Partition}}, Streams: plan.Streams,
		PauseEvery: 1000, ReadOn: true}
	reading := startWorker(t, "consumer", d.Socket, workerPlan{Consumer: consumer})
	require.Eventually(t, func() bool {
		info, err := c.Inspect(ctx, plan.Partition)
		return err == nil && info.SubpartitionInfo[0].BuffersReleased > 0
	}, daemontest.Patience, time.Millisecond)
	d.Kill()
	writing.signal(unix.SIGCONT)
	writing.waitFor(done, ctx.Done())
	require.NotNil(t, writing.last, writing.report())
	if end := writing.last.Outcome.Error; end != "" {
		require.Contains(t, end, shuffle.ErrDaemonLost.Error())
		if !strings.Contains(end, shuffle.ErrOutcomeUnknown.Error()) {
			t.Skipf("the consumer stood still for so long that the writer gave up: %s\n%s\n%s", end, writing.report(),
				reading.report())
		}
	}
	reading.waitFor(done, ctx.Done())
	require.NotNil(t, reading.last, reading.report())
	require.Empty(t, reading.last.Outcome.Error, "the end is published")
	require.Equal(t, []string{endOfPartition}, reading.result().Ends)
	require.Equal(t, plan.Records, reading.result().Records[0])
	require.Zero(t, reading.last.Outcome.Mappings)
	require.Zero(t, writing.last.Outcome.Mappings)
}
