package partition_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/ctxerr"
	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// finishing is a partition of two subpartitions with a record for each, whose
// consumers have not come.
func finishing(t *testing.T, memory linktest.Memory) (*linktest.Link, *partition.ResultPartition) {
	link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 8, SegmentSize: 64})
	emit(t, link.Partition, 8, 0)
	emit(t, link.Partition, 8, 1)
	return link, link.Partition
}

// loseDaemon has the partition's host behave as a client without its daemon.
func loseDaemon(link *linktest.Link) {
	link.Partition.SetDaemonLost(shuffle.ErrDaemonLost)
	link.Host.Answer = func(ctx context.Context) error {
		if err := ctxerr.Of(ctx); err != nil {
			return err
		}
		return shuffle.ErrDaemonLost
	}
}

// requireNoEnd checks that a view has a record and no end behind it.
func requireNoEnd(t *testing.T, v *partition.SubpartitionView) {
	t.Helper()
	_, types := drain(t, v)
	require.NotContains(t, types, memseg.EndOfPartition)
}

func TestFinishUnderAnEndedContextPublishesNothing(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, lost := range []bool{false, true} {
			link, p := finishing(t, memory)
			if lost {
				loseDaemon(link)
			}
			first, second := link.View(0), link.View(1)
			cause := errors.New("the source has stopped")
			ctx, cancel := context.WithCancelCause(context.Background())
			cancel(cause)
			err := p.Finish(ctx)
			require.ErrorIs(t, err, context.Canceled)
			require.ErrorIs(t, err, cause)
			require.NotErrorIs(t, err, shuffle.ErrOutcomeUnknown)
			require.NotErrorIs(t, err, shuffle.ErrDaemonLost)
			requireNoEnd(t, first)
			requireNoEnd(t, second)
			require.Zero(t, link.Host.Finished)

			emit(t, p, 8, 0) // it is as it was
			if lost {
				continue
			}
			require.NoError(t, p.Finish(context.Background()))
			_, types := drain(t, first)
			require.Equal(t, memseg.EndOfPartition, types[len(types)-1])
		}
	})
}

func TestFinishThatFailedBeforeTheEndWasPublishedCanBeFollowedByFail(t *testing.T) {
	link, p := finishing(t, linktest.Heap)
	view := link.View(0)
	require.ErrorIs(t, p.Finish(canceled()), context.Canceled)
	require.NoError(t, p.Fail(context.Background(), errors.New("the source has stopped")))
	require.Equal(t, "the source has stopped", link.Host.Cause)
	requireNoEnd(t, view)
	require.ErrorIs(t, p.Finish(context.Background()), shuffle.ErrPartitionFailed)
	requireNoEnd(t, view)
}

func TestFinishThatIsNotAcknowledgedIsAskedAgain(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link, p := finishing(t, memory)
		view := link.View(0)
		link.Host.Answer = func(context.Context) error { return context.DeadlineExceeded }
		err := p.Finish(context.Background())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
		sizes, types := drain(t, view)
		require.Equal(t, []int{8}, sizes)
		require.Equal(t, memseg.EndOfPartition, types[1], "it is published")

		require.ErrorIs(t, p.Fail(context.Background(), errors.New("no")), shuffle.ErrFinished)
		require.Empty(t, link.Host.Cause)
		require.ErrorIs(t, p.EmitRecord(context.Background(), []byte("x"), 0), shuffle.ErrFinished)
		require.ErrorIs(t, p.BroadcastEvent(context.Background(), shuffle.CustomEvent{}), shuffle.ErrFinished)
		err = p.Finish(canceled())
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown, "it stays published")
		require.Equal(t, 1, link.Host.Finished, "nobody was asked")

		link.Host.Answer = nil
		require.NoError(t, p.Finish(context.Background()))
		require.Equal(t, 2, link.Host.Finished)
		_, types = drain(t, view)
		require.Empty(t, types, "there is one end")
		require.ErrorIs(t, p.Finish(context.Background()), shuffle.ErrFinished)
		require.Equal(t, 2, link.Host.Finished)
	})
}

func TestFinishThatTheHostRefusesSaysThatTheEndIsPublished(t *testing.T) {
	link, p := finishing(t, linktest.Heap)
	link.Host.Answer = func(context.Context) error { return shuffle.ErrFenced }
	err := p.Finish(context.Background())
	require.ErrorIs(t, err, shuffle.ErrFenced)
	require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
}

func TestFinishWithoutTheDaemonIsWholeOnceEverybodyHasReadToTheEnd(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link, p := finishing(t, memory)
		loseDaemon(link)
		partition.SetDaemonLostGrace(t, time.Hour)
		first, second := link.View(0), link.View(1)
		finished := make(chan error)
		go func() { finished <- p.Finish(context.Background()) }()
		for _, v := range []*partition.SubpartitionView{first, second} {
			for !v.Ended() {
				drain(t, v)
			}
		}
		require.NoError(t, <-finished)
		require.ErrorIs(t, p.Finish(context.Background()), shuffle.ErrFinished)
	})
}

func TestFinishWithoutTheDaemonIsUnknownWhileAConsumerHasNotReadToTheEnd(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link, p := finishing(t, memory)
		first, second := link.View(0), link.View(1)
		loseDaemon(link)
		drain(t, first)
		partition.SetDaemonLostGrace(t, time.Millisecond)
		err := p.Finish(context.Background()) // gives up when nothing moves
		require.ErrorIs(t, err, shuffle.ErrDaemonLost)
		require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
		require.ErrorContains(t, err, "does not get on")

		drain(t, first)
		held := hold(t, second)
		drain(t, second)
		partition.SetDaemonLostGrace(t, time.Hour)
		ctx, cancel := context.WithCancel(context.Background())
		link.Ring(0)
		asked := make(chan error)
		go func() { asked <- p.Finish(ctx) }()
		require.Eventually(t, link.IsParked, wait, tick)
		require.False(t, link.IsRung(0) || link.IsRung(1),
			"what was rung is taken, or the sleep ends at once and for ever")
		cancel()
		err = <-asked
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
		require.ErrorIs(t, err, shuffle.ErrDaemonLost)
		require.ErrorContains(t, err, "subpartition 1")

		require.NoError(t, held.Release())
		require.NoError(t, p.Finish(context.Background()), "now it is known")
	})
}

// Who is rung for one consumer sleeps until the next one rings: what has rung is taken.
func TestFinishWithoutTheDaemonSleepsWhileConsumersRead(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link, p := finishing(t, memory)
		loseDaemon(link)
		partition.SetDaemonLostGrace(t, time.Hour)
		views := []*partition.SubpartitionView{link.View(0), link.View(1)}
		finished := make(chan error)
		go func() { finished <- p.Finish(context.Background()) }()
		for _, v := range views {
			require.Eventually(t, func() bool { return !link.IsRung(0) && link.IsParked() }, wait, tick)
			for !v.Ended() {
				drain(t, v)
			}
		}
		require.NoError(t, <-finished)
	})
}

func TestFinishWithoutTheDaemonIsUnknownIfAConsumerNeverCame(t *testing.T) {
	link, p := finishing(t, linktest.Heap)
	view := link.View(1)
	loseDaemon(link)
	err := p.Finish(context.Background())
	require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
	require.ErrorContains(t, err, "subpartition 0 has no consumer")
	_, types := drain(t, view)
	require.Equal(t, memseg.EndOfPartition, types[1], "the other reads a whole stream")
	require.ErrorIs(t, p.Finish(context.Background()), shuffle.ErrOutcomeUnknown)
}

func TestFinishWithoutTheDaemonCountsAConsumerThatHadReadOrIsDiscarded(t *testing.T) {
	link := linktest.New(t, linktest.Config{
		Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64, OnLost: shuffle.DiscardOnConsumerLost,
	})
	p := link.Partition
	emit(t, p, 8, 0)
	emit(t, p, 8, 1)
	second := link.View(1)
	require.NoError(t, link.TryAttach(0))
	p.DetachConsumer(0, false, "it died")
	link.Host.Answer = func(context.Context) error {
		drain(t, second)
		p.DetachConsumer(1, true, "it has read everything")
		p.SetDaemonLost(shuffle.ErrDaemonLost)
		return shuffle.ErrDaemonLost
	}
	require.NoError(t, p.Finish(context.Background()))
}

func TestHostileConsumerThatReleasesWhatIsNotThereIsLostToFinish(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 8, SegmentSize: 64})
	p := link.Partition
	emit(t, p, 8, 0)
	c := link.Consumer(0)
	loseDaemon(link)
	beyond := uint64(linktest.NearWrap)
	beyond += 100
	c.Words.Released.Store(beyond)
	err := p.Finish(context.Background())
	require.ErrorIs(t, err, shuffle.ErrOutcomeUnknown)
	require.ErrorIs(t, err, shuffle.ErrConsumerLost)
}

func TestConsumedPartitionIsFinishedToItsWriter(t *testing.T) {
	link, p := finishing(t, linktest.Heap)
	require.NoError(t, p.Finish(context.Background()))
	p.EndedByHost(shuffle.ErrPartitionReleased)
	require.ErrorIs(t, p.EmitRecord(context.Background(), []byte("x"), 0), shuffle.ErrFinished)
	require.ErrorIs(t, p.Finish(context.Background()), shuffle.ErrFinished)
	require.Equal(t, 1, link.Host.Finished)
}

func TestNilContextIsRefused(t *testing.T) {
	link, p := finishing(t, linktest.Heap)
	var none context.Context
	_, reserved := p.Reserve(none, 0, 60)
	empty := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 1,
		SegmentSize: 64}).Partition
	for name, err := range map[string]error{
		"emit": p.EmitRecord(none, make([]byte, 64), 0), "broadcast": p.BroadcastRecord(none, make([]byte, 64)),
		"start": start(none, empty, 64, 0), "reserve": reserved, "event": p.BroadcastEvent(none, shuffle.CustomEvent{}),
		"finish": p.Finish(none), "fail": p.Fail(none, nil), "release": p.Release(none),
	} {
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, name)
	}
	require.NoError(t, p.Finish(context.Background()), "nothing has happened")
	require.Equal(t, 1, link.Host.Finished)
}

// The cause of a failure may be how another stream has ended, or its Finish.
func TestCauseOfAFailureSaysNothingOfThisPartitionsEnd(t *testing.T) {
	ctx := context.Background()
	for _, own := range []error{
		shuffle.ErrOutcomeUnknown, shuffle.ErrFinished, shuffle.ErrDaemonLost, io.EOF,
		&shuffle.AttemptError{Attempt: 7, Next: 8, Err: shuffle.ErrProducerLost},
	} {
		p := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4,
			SegmentSize: 64}).Partition
		cause := fmt.Errorf("upstream: %w", own)
		require.NoError(t, p.Fail(ctx, cause))
		for _, err := range []error{p.Finish(ctx), p.EmitRecord(ctx, make([]byte, 8), 0),
			p.BroadcastEvent(ctx, shuffle.CustomEvent{})} {
			require.ErrorIs(t, err, shuffle.ErrPartitionFailed)
			require.ErrorIs(t, err, cause)
			for _, not := range []error{shuffle.ErrOutcomeUnknown, shuffle.ErrFinished, shuffle.ErrDaemonLost,
				shuffle.ErrProducerLost, io.EOF} {
				require.NotErrorIs(t, err, not)
			}
			var attempt *shuffle.AttemptError
			require.NotErrorAs(t, err, &attempt)
		}
	}
}
