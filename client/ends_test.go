package client

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// attachedPair is a partition whose record its consumer can read, and has not.
func attachedPair(t *testing.T, producer, consumer *Client) (shuffle.ResultPartition, shuffle.InputGate) {
	t.Helper()
	s := spec(1)
	s.Name = "orders"
	gate := openOne(t, consumer, s.ID, 0)
	p := create(t, producer, s)
	require.NoError(t, p.EmitRecord(testContext(t), framed("record"), 0))
	require.Eventually(t, func() bool {
		info, err := consumer.Inspect(testContext(t), s.ID)
		return err == nil && info.SubpartitionInfo[0].State == "attached"
	}, patience, time.Millisecond)
	_, err := producer.List(testContext(t)) // what came before, also that its consumer is attached, is told
	require.NoError(t, err)
	return p, gate
}

func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestStreamOfAFinishUnderAnEndedContextIsNotWhole(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	for name, end := range map[string]struct {
		then func(p shuffle.ResultPartition) error
		want error
	}{
		"closed": {func(p shuffle.ResultPartition) error { return p.Close() }, shuffle.ErrProducerLost},
		"failed": {func(p shuffle.ResultPartition) error {
			return p.Fail(testContext(t), errors.New("the source has stopped"))
		}, shuffle.ErrPartitionFailed},
		"finished": {func(p shuffle.ResultPartition) error { return p.Finish(testContext(t)) }, nil},
	} {
		p, gate := attachedPair(t, producer, consumer)
		err := p.Finish(canceled())
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, shuffle.ErrOutcomeUnknown)
		require.ErrorContains(t, err, `"orders" (`+p.ID().String()+`)`)
		require.NoError(t, p.FlushAll())
		require.NoError(t, end.then(p), name)
		if end.want == nil {
			require.Equal(t, []string{"record"}, readAll(t, gate)[0])
		} else {
			data, err := nextError(t, gate)
			require.Equal(t, framed("record"), []byte(data))
			require.ErrorIs(t, err, end.want, name)
		}
		require.NoError(t, gate.Close())
	}
}

func TestFailAndReleaseAreToldUnderAnEndedContext(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	cause := errors.New("the source has stopped")
	for want, call := range map[error]func(p shuffle.ResultPartition, ctx context.Context) error{
		shuffle.ErrPartitionFailed: func(p shuffle.ResultPartition, ctx context.Context) error {
			return p.Fail(ctx, cause)
		},
		shuffle.ErrPartitionReleased: func(p shuffle.ResultPartition, ctx context.Context) error {
			return p.Release(ctx)
		},
	} {
		p, gate := attachedPair(t, producer, consumer)
		require.NoError(t, p.FlushAll())
		require.ErrorIs(t, call(p, canceled()), context.Canceled)
		data, err := nextError(t, gate)
		require.Equal(t, framed("record"), []byte(data))
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, p.EmitRecord(testContext(t), framed("more"), 0), want)
		require.NoError(t, call(p, testContext(t)), "asked again, it is acknowledged")
		require.NoError(t, gate.Close())
		require.NoError(t, p.Close())
	}
	d.requireIdle(t)
}

func TestFirstReasonOfAFailureStays(t *testing.T) {
	d := startDaemon(t, testConfig())
	p, gate := attachedPair(t, d.dial(t), d.dial(t))
	require.NoError(t, p.Fail(testContext(t), errors.New("the first")))
	require.NoError(t, p.Fail(testContext(t), errors.New("the second")))
	_, err := nextError(t, gate)
	require.ErrorIs(t, err, shuffle.ErrPartitionFailed)
	require.ErrorContains(t, err, "the first")
	require.ErrorContains(t, p.Finish(testContext(t)), "the first")
	require.NoError(t, gate.Close())
}

func TestFinishMayBeAskedAgainAfterThePartitionWasConsumed(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	p, gate := attachedPair(t, producer, consumer)

	// A caller that gives up while the answer is on its way.
	ctx, cancel := context.WithCancel(context.Background())
	finished := make(chan error)
	go func() { finished <- p.Finish(ctx) }()
	require.Equal(t, []string{"record"}, readAll(t, gate)[0])
	cancel()
	if err := <-finished; err != nil { // the answer may have been faster
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
		require.NoError(t, p.Finish(testContext(t)))
	}
	require.NoError(t, gate.Close())
	require.ErrorIs(t, p.Finish(testContext(t)), shuffle.ErrFinished)

	// The daemon itself says yes as often as it is asked.
	r := producer.partitionOf(p)
	require.NoError(t, r.FinishPartition(testContext(t)))
	require.Eventually(t, func() bool { return len(d.Snapshot().Partitions) == 0 }, patience, time.Millisecond)
	require.NoError(t, r.FinishPartition(testContext(t)), "also when it was consumed meanwhile")
}

// partitionOf finds the daemon's side of a partition.
func (c *Client) partitionOf(p shuffle.ResultPartition) *remotePartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.partitions {
		if r.partition == p {
			return r
		}
	}
	return nil
}

func TestBothSidesOfAStageAgreeWithoutTheDaemon(t *testing.T) {
	d := startDaemon(t, testConfig())
	p, gate := attachedPair(t, d.dial(t), d.dial(t))
	require.NoError(t, d.Close())
	finished := make(chan error)
	go func() { finished <- p.Finish(testContext(t)) }()
	require.Equal(t, []string{"record"}, readAll(t, gate)[0])
	require.NoError(t, <-finished, "the consumer has said that it has everything")
}

func TestFinishThatNobodyReadsWithoutTheDaemonIsUnknown(t *testing.T) {
	d := startDaemon(t, testConfig())
	p, gate := attachedPair(t, d.dial(t), d.dial(t))
	require.NoError(t, d.Close())
	err := p.Finish(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
	require.ErrorContains(t, err, `"orders" (`)
	require.ErrorIs(t, p.Fail(testContext(t), errors.New("no")), shuffle.ErrFinished)
	require.Equal(t, []string{"record"}, readAll(t, gate)[0], "it was whole")
	require.NoError(t, p.Finish(testContext(t)), "which can be asked for")
}

func TestConsumerThatNeverCameHasNoEndWithoutTheDaemon(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(2)
	p := create(t, producer, s)
	first := openOne(t, consumer, s.ID, 0)
	require.NoError(t, p.EmitRecord(testContext(t), framed("to the first"), 0))
	require.NoError(t, p.FlushAll())
	b, err := first.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, b.Release())
	require.NoError(t, d.Close())
	err = p.Finish(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
	require.ErrorContains(t, err, "subpartition 1 has no consumer")
	require.Empty(t, readAll(t, first)[0], "the one that was there reads a whole stream")
	_, err = consumer.OpenGate(testContext(t), gateOf(s.ID, 1))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
}

func TestFailWithoutTheDaemonIsNoEnd(t *testing.T) {
	d := startDaemon(t, testConfig())
	p, gate := attachedPair(t, d.dial(t), d.dial(t))
	require.NoError(t, d.Close())
	require.ErrorIs(t, p.Fail(testContext(t), errors.New("disk on fire")), shuffle.ErrDaemonLost)
	data, err := nextError(t, gate)
	require.Equal(t, framed("record"), []byte(data))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	require.ErrorIs(t, p.Finish(testContext(t)), shuffle.ErrPartitionFailed)
}

func TestFinishThatWasAcknowledgedIsReadWithoutTheDaemonByWhoWasThere(t *testing.T) {
	d := startDaemon(t, testConfig())
	p, gate := attachedPair(t, d.dial(t), d.dial(t))
	require.NoError(t, p.Finish(testContext(t)))
	require.NoError(t, d.Close())
	require.Equal(t, []string{"record"}, readAll(t, gate)[0])
	require.ErrorIs(t, p.Finish(testContext(t)), shuffle.ErrFinished)
}

// halfRead is a partition of two subpartitions: the consumer of the first is
// attached, that of the second has not come.
func halfRead(t *testing.T, producer, consumer *Client) (shuffle.ResultPartition, shuffle.InputGate) {
	t.Helper()
	s := spec(2)
	p := create(t, producer, s)
	gate := openOne(t, consumer, s.ID, 0)
	require.NoError(t, p.EmitRecord(testContext(t), framed("before"), 0))
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, b.Release())
	require.NoError(t, p.EmitRecord(testContext(t), framed("record"), 0))
	return p, gate
}

func TestClosedAfterAnEndThatNobodyAcknowledgedIsALostProducerToLateConsumers(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	p, gate := halfRead(t, producer, consumer)
	// The context ends between the end and the message about it.
	err := p.Finish(&endsAfterTheEndIsPublished{Context: context.Background()})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
	require.Equal(t, []string{"record"}, readAll(t, gate)[0], "who was there reads a whole stream")
	require.NoError(t, p.Close())
	_, err = producer.List(testContext(t)) // the daemon has heard of the end before it answers
	require.NoError(t, err)
	late := openOne(t, consumer, p.ID(), 1)
	_, err = nextError(t, late)
	require.ErrorIs(t, err, shuffle.ErrProducerLost)
	require.NoError(t, gate.Close())
	require.NoError(t, late.Close())
	d.requireIdle(t)
}

func TestReleaseAfterTheEndIsForThoseWhoHaveNotCome(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	p, gate := halfRead(t, producer, consumer)
	require.NoError(t, p.Finish(testContext(t)))
	require.Equal(t, []string{"record"}, readAll(t, gate)[0])
	require.NoError(t, p.Release(testContext(t)))
	late := openOne(t, consumer, p.ID(), 1)
	_, err := nextError(t, late)
	require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
	require.NoError(t, gate.Close())
	require.NoError(t, late.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}

// endsAfterTheEndIsPublished is looked at once before that.
type endsAfterTheEndIsPublished struct {
	context.Context
	looks int
}

func (c *endsAfterTheEndIsPublished) Err() error {
	if c.looks++; c.looks > 1 {
		return context.Canceled
	}
	return nil
}
