package client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// nextError reads on until the gate returns an error, and returns it with the
// bytes that came before.
func nextError(t testing.TB, gate shuffle.InputGate) (data string, err error) {
	t.Helper()
	var all bytes.Buffer
	for {
		b, err := gate.Next(testContext(t))
		if err != nil {
			return all.String(), err
		}
		if !b.IsEvent() {
			all.Write(b.Bytes())
		}
		require.NoError(t, b.Release())
	}
}

// openOne opens a gate on one subpartition.
func openOne(t testing.TB, c *Client, id shuffle.PartitionID, subpartition int) shuffle.InputGate {
	t.Helper()
	gate, err := c.OpenGate(testContext(t), gateOf(id, subpartition))
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := gate.Close(); err != nil {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
	})
	return gate
}

func create(t testing.TB, c *Client, s shuffle.PartitionSpec) shuffle.ResultPartition {
	t.Helper()
	p, err := c.CreatePartition(testContext(t), s)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
	})
	return p
}

func TestConsumerGetsWhatIsCommittedAndThenWhyThereIsNoMore(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(t *testing.T, producer *Client, p shuffle.ResultPartition)
		want error
		text string
	}{
		"failed": {func(t *testing.T, _ *Client, p shuffle.ResultPartition) {
			require.NoError(t, p.Fail(testContext(t), errors.New("disk on fire")))
		}, shuffle.ErrPartitionFailed, "disk on fire"},
		"released": {func(t *testing.T, _ *Client, p shuffle.ResultPartition) {
			require.NoError(t, p.FlushAll())
			require.NoError(t, p.Release(testContext(t)))
		}, shuffle.ErrPartitionReleased, "by its producer"},
		"closed unfinished": {func(t *testing.T, _ *Client, p shuffle.ResultPartition) {
			require.NoError(t, p.FlushAll())
			require.NoError(t, p.Close())
		}, shuffle.ErrProducerLost, "closed it unfinished"},
		"connection lost": {func(t *testing.T, producer *Client, p shuffle.ResultPartition) {
			require.NoError(t, p.FlushAll())
			require.NoError(t, producer.conn.Close()) // as the kernel does for a killed process
		}, shuffle.ErrProducerLost, "connection ended"},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, testConfig())
			producer, consumer := d.dial(t), d.dial(t)
			s := spec(2)
			gate := openOne(t, consumer, s.ID, 0)
			p := create(t, producer, s)
			require.NoError(t, p.EmitRecord(testContext(t), framed("the last words"), 0))
			require.Eventually(t, func() bool {
				info, err := consumer.Inspect(testContext(t), s.ID)
				return err == nil && info.SubpartitionInfo[0].State == "attached"
			}, patience, time.Millisecond)

			test.end(t, producer, p)
			data, err := nextError(t, gate)
			require.Equal(t, string(framed("the last words")), data)
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
			_, err = gate.Next(testContext(t))
			require.ErrorIs(t, err, shuffle.ErrIncomplete, "the channel has ended, and it stays that way")
			require.ErrorIs(t, err, test.want)
			var told *shuffle.ChannelError
			require.ErrorAs(t, err, &told)
			require.Equal(t, s.ID, told.Partition)

			late := openOne(t, consumer, s.ID, 1)
			_, err = nextError(t, late)
			require.ErrorIs(t, err, test.want, "so it is for who comes late")
			require.ErrorContains(t, err, test.text)
			require.NoError(t, gate.Close())
			require.NoError(t, late.Close())
			if err := p.Close(); err != nil {
				require.ErrorIs(t, err, shuffle.ErrClosed)
			}
			d.requireIdle(t)
		})
	}
}

func TestReadingWhatIsNotThereGivesDifferentErrors(t *testing.T) {
	config := testConfig()
	config.Retention = time.Millisecond
	d := startDaemon(t, config)
	producer, consumer := d.dial(t), d.dial(t)
	ctx := testContext(t)

	expired := spec(1)
	p := create(t, producer, expired)
	require.NoError(t, p.Finish(ctx))
	require.Eventually(t, func() bool { return len(d.Snapshot().Partitions) == 0 }, patience, time.Millisecond)
	require.Eventually(t, func() bool {
		return errors.Is(p.EmitRecord(ctx, framed("x"), 0), shuffle.ErrPartitionExpired)
	}, patience, time.Millisecond, "its producer is told")

	consumed := spec(1)
	p = create(t, producer, consumed)
	gate := openOne(t, consumer, consumed.ID, 0)
	require.NoError(t, p.Finish(ctx))
	readAll(t, gate)

	for id, want := range map[shuffle.PartitionID]error{
		expired.ID: shuffle.ErrPartitionExpired, consumed.ID: shuffle.ErrPartitionReleased,
	} {
		_, err := nextError(t, openOne(t, consumer, id, 0))
		require.ErrorIs(t, err, want)
		require.NotErrorIs(t, err, io.EOF)
		_, err = consumer.Inspect(ctx, id)
		require.ErrorIs(t, err, want)
	}

	never := gateOf(shuffle.NewPartitionID(), 0)
	never.Timeout = time.Millisecond
	unknown, err := consumer.OpenGate(ctx, never)
	require.NoError(t, err)
	_, err = nextError(t, unknown)
	require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)
	require.NoError(t, unknown.Close())
	require.NotZero(t, d.Snapshot().Rejects["partition_not_found"])
}

func TestSubpartitionHasOneConsumerForGood(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	first := openOne(t, consumer, s.ID, 0)
	second := openOne(t, consumer, s.ID, 0)
	_, err := nextError(t, second)
	require.ErrorIs(t, err, shuffle.ErrAlreadyConsumed)
	require.ErrorContains(t, err, "subpartition 0 has a consumer")

	require.NoError(t, first.Close())
	require.Eventually(t, func() bool {
		return errors.Is(p.EmitRecord(testContext(t), framed("x"), 0), shuffle.ErrConsumerLost)
	}, patience, time.Millisecond)
	_, err = nextError(t, openOne(t, consumer, s.ID, 0))
	require.ErrorIs(t, err, shuffle.ErrAlreadyConsumed, "also after the first has gone")
	require.ErrorContains(t, err, "subpartition 0 had a consumer, which left before the end")
}

func TestLostConsumerIsToldToItsProducer(t *testing.T) {
	for _, policy := range []shuffle.ConsumerLostPolicy{shuffle.FailOnConsumerLost, shuffle.DiscardOnConsumerLost} {
		d := startDaemon(t, testConfig())
		producer, consumer, other := d.dial(t), d.dial(t), d.dial(t)
		s := spec(2)
		s.OnConsumerLost = policy
		p := create(t, producer, s)
		gate := openOne(t, consumer, s.ID, 0)
		survivor := openOne(t, other, s.ID, 1)
		require.NoError(t, p.EmitRecord(testContext(t), framed("to the one"), 0))
		require.NoError(t, p.FlushAll())
		b, err := gate.Next(testContext(t)) // it is attached
		require.NoError(t, err)
		require.NoError(t, b.Release())

		require.NoError(t, consumer.conn.Close())
		state := func() string {
			info, err := producer.Inspect(testContext(t), s.ID)
			require.NoError(t, err)
			return info.SubpartitionInfo[0].State
		}
		require.Eventually(t, func() bool { return state() == "abandoned" }, patience, time.Millisecond)
		if policy == shuffle.FailOnConsumerLost {
			require.Eventually(t, func() bool {
				err := p.EmitRecord(testContext(t), framed("x"), 1)
				return errors.Is(err, shuffle.ErrConsumerLost)
			}, patience, time.Millisecond)
		} else {
			// More than all segments together: nothing must wait for the dead.
			for range 100_000 {
				require.NoError(t, p.EmitRecord(testContext(t), framed("into the void"), 0))
			}
			require.NoError(t, p.EmitRecord(testContext(t), framed("to the other"), 1))
			require.NoError(t, p.Finish(testContext(t)))
			require.Equal(t, []string{"to the other"}, readAll(t, survivor)[0])
		}
		require.NoError(t, p.Close())
		require.NoError(t, gate.Close())
		require.NoError(t, survivor.Close())
		d.requireIdle(t)
	}
}

func TestFinishedPartitionOutlivesItsProducer(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	require.NoError(t, p.EmitRecord(testContext(t), framed("testament"), 0))
	require.NoError(t, p.Finish(testContext(t)))
	require.NoError(t, p.Close())
	require.NoError(t, producer.Close())
	gate := openOne(t, consumer, s.ID, 0)
	require.Equal(t, []string{"testament"}, readAll(t, gate)[0])
	require.NoError(t, gate.Close())
	d.requireIdle(t)
}

func TestBuffersStayReadableAfterTheGateAndThePartitionAreClosed(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	gate := openOne(t, consumer, s.ID, 0)
	require.NoError(t, p.EmitRecord(testContext(t), framed("kept"), 0))
	require.NoError(t, p.Finish(testContext(t)))
	require.NoError(t, p.Close())
	kept, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, gate.Close())
	list, err := consumer.List(testContext(t)) // the daemon has handled what came before
	require.NoError(t, err)
	require.Len(t, list, 1, "its memory is held for the buffer")
	require.Equal(t, string(framed("kept")), string(kept.Bytes()))
	require.NoError(t, kept.Release())
	d.requireIdle(t)
}

func TestAttachedPairGoesOnWithoutTheDaemon(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	gate := openOne(t, consumer, s.ID, 0)
	require.NoError(t, p.EmitRecord(testContext(t), framed("before"), 0))
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, b.Release())

	waiting := make(chan error, 1)
	idle := openOne(t, consumer, shuffle.NewPartitionID(), 0)
	go func() {
		_, err := idle.Next(testContext(t))
		waiting <- err
	}()
	require.NoError(t, d.Close())
	require.ErrorIs(t, <-waiting, shuffle.ErrDaemonLost, "a wait for a partition ends")
	_, err = producer.CreatePartition(testContext(t), spec(1))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	_, err = consumer.OpenGate(testContext(t), gateOf(s.ID, 0))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	_, err = consumer.List(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)

	require.NoError(t, p.EmitRecord(testContext(t), framed("after"), 0))
	require.ErrorIs(t, p.Finish(testContext(t)), shuffle.ErrDaemonLost)
	require.Equal(t, []string{"after"}, readAll(t, gate)[0])
}

func TestCallsWithoutAContextAreRefused(t *testing.T) {
	c := startDaemon(t, testConfig()).dial(t)
	var none context.Context
	_, err := c.OpenGate(none, gateOf(shuffle.NewPartitionID(), 0))
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	_, err = c.CreatePartition(none, spec(1))
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	_, err = c.Inspect(none, shuffle.NewPartitionID())
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	_, err = Dial(none)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
}

func TestClientOfNothingIsRefused(t *testing.T) {
	for name, option := range map[string]Option{"option": nil, "logger": WithLogger(nil)} {
		_, err := Dial(testContext(t), option)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
		require.ErrorContains(t, err, name)
		_, err = Embedded(EmbeddedConfig{Memory: 1 << 20}, option)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
		require.ErrorContains(t, err, name)
	}
}
