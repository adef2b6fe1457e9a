package gate_test

import (
	"context"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/gate"
	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
)

func TestGateIsAvailableForWhatNextReturns(t *testing.T) {
	lost := shuffle.ErrProducerLost
	for name, row := range map[string]struct {
		prepare func(t *testing.T, g *linktest.Gate, links []*linktest.Link)
		want    error // of Next
	}{
		"a buffer": {func(t *testing.T, _ *linktest.Gate, links []*linktest.Link) { emit(t, links[1], segmentSize) },
			nil},
		"an event": {func(t *testing.T, _ *linktest.Gate, links []*linktest.Link) {
			sendEvent(t, links[1], priorityEvent)
		}, nil},
		"an end":    {func(t *testing.T, _ *linktest.Gate, links []*linktest.Link) { finish(t, links[0]) }, nil},
		"a failure": {func(_ *testing.T, g *linktest.Gate, _ []*linktest.Link) { g.FailChannel(1, lost) }, lost},
		"a close": {func(t *testing.T, g *linktest.Gate, _ []*linktest.Link) { require.NoError(t, g.Close()) },
			shuffle.ErrClosed},
		"given up": {func(_ *testing.T, g *linktest.Gate, _ []*linktest.Link) { g.Sever(lost) }, lost},
		"a flush": {func(t *testing.T, _ *linktest.Gate, links []*linktest.Link) {
			emit(t, links[0], 8)
			flush(t, links[0])
		}, nil},
		"the daemon": {func(_ *testing.T, g *linktest.Gate, _ []*linktest.Link) { g.SetDaemonLost(nil) },
			shuffle.ErrDaemonLost},
	} {
		t.Run(name, func(t *testing.T) {
			gate.SleepLong(t)
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				g, links := newGate(t, memory, 2)
				require.False(t, g.IsAvailable())
				require.ErrorIs(t, g.WaitAvailable(canceled()), context.Canceled)
				woken := make(chan error, 1)
				go func() { woken <- g.WaitAvailable(context.Background()) }()
				require.Eventually(t, g.IsParked, wait, tick)
				require.False(t, g.IsAvailable(), "another goroutine reads")
				row.prepare(t, g, links)
				require.NoError(t, <-woken)
				for range 2 {
					require.True(t, g.IsAvailable(), "nothing was taken")
					require.NoError(t, g.WaitAvailable(context.Background()))
				}
				b, ok, err := g.TryNext()
				if row.want != nil {
					require.ErrorIs(t, err, row.want)
					return
				}
				require.NoError(t, err)
				require.True(t, ok)
				require.NoError(t, b.Release())
				require.False(t, g.IsAvailable())
			})
		})
	}
}

func flush(t testing.TB, l *linktest.Link) {
	t.Helper()
	require.NoError(t, l.Partition.FlushAll())
}

func TestGateThatHasEndedIsAvailable(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	finish(t, links[0])
	require.Equal(t, endOfPartition(0), next(t, g))
	require.True(t, g.IsAvailable())
	require.NoError(t, g.WaitAvailable(context.Background()))
}

// A channel that says too much is kept is told of by Next, not by who only looks.
func TestGateWhoseUserKeepsTooMuchIsAvailable(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	for range 8 {
		emit(t, links[0], segmentSize)
	}
	for range 5 {
		b, err := g.Next(context.Background())
		require.NoError(t, err)
		defer func() { require.NoError(t, b.Release()) }()
	}
	require.True(t, g.IsAvailable())
	_, _, err := g.TryNext()
	require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
}

// The body of a loop asks whether the loop goes on without waiting.
func TestGateIsAvailableInALoopUntilItsLastRecord(t *testing.T) {
	w, g, _ := newPipe(t, linktest.Heap, shuffle.Strings{}, 64, 1000)
	for _, rec := range []string{"a", "b", "c"} {
		require.NoError(t, w.Emit(context.Background(), rec))
	}
	require.NoError(t, w.Flush())
	var got []bool
	for range 2 {
		for _, err := range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
			require.NoError(t, err)
			got = append(got, g.IsAvailable())
			if len(got) == 2 {
				break
			}
			if !g.IsAvailable() {
				break
			}
		}
		if len(got) == 2 {
			require.True(t, g.IsAvailable(), "what the loop has left")
		}
	}
	require.Equal(t, []bool{true, true, false}, got)
	require.False(t, g.IsAvailable())
}

func TestWaitAnyNamesAGateThatIsAvailable(t *testing.T) {
	gate.SleepLong(t)
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		var gates []shuffle.InputGate
		var sleeping []*linktest.Gate
		var links []*linktest.Link
		for range 3 {
			g, l := newGate(t, memory, 1)
			gates, sleeping, links = append(gates, g.InputGate), append(sleeping, g), append(links, l[0])
		}
		for i := range gates {
			type found struct {
				index int
				err   error
			}
			woken := make(chan found, 1)
			go func() {
				index, err := reader.WaitAny(context.Background(), gates...)
				woken <- found{index, err}
			}()
			for _, g := range sleeping {
				require.Eventually(t, g.IsParked, wait, tick)
			}
			emit(t, links[i], segmentSize)
			require.Equal(t, found{i, nil}, <-woken)
			require.Equal(t, buffer(0, segmentSize), next(t, sleeping[i]))
		}
		emit(t, links[0], segmentSize)
		emit(t, links[2], segmentSize)
		seen := map[int]bool{}
		for len(seen) < 2 {
			index, err := reader.WaitAny(context.Background(), gates...)
			require.NoError(t, err)
			seen[index] = true
		}
		require.Equal(t, map[int]bool{0: true, 2: true}, seen)
		require.NoError(t, sleeping[1].Close())
		for !seen[1] {
			index, err := reader.WaitAny(context.Background(), gates...)
			require.NoError(t, err)
			seen[index] = true
		}
	})
}

func TestWaitAnyIsRefusedOrGivenUp(t *testing.T) {
	g, _ := newGate(t, linktest.Heap, 1)
	other, _ := newGate(t, linktest.Heap, 1)
	for _, gates := range [][]shuffle.InputGate{nil, {nil}, {g.InputGate, (*gate.InputGate)(nil)},
		{&gate.InputGate{}}} {
		_, err := reader.WaitAny(context.Background(), gates...)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	}
	index, err := reader.WaitAny(canceled(), g.InputGate, other.InputGate)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, -1, index)
	ctx, cancel := context.WithCancel(context.Background())
	given := make(chan error, 1)
	go func() {
		_, err := reader.WaitAny(ctx, g.InputGate, other.InputGate)
		given <- err
	}()
	require.Eventually(t, func() bool { return g.IsParked() && other.IsParked() }, wait, tick)
	cancel()
	require.ErrorIs(t, <-given, context.Canceled)
	requireNothing(t, g) // nobody reads it any more
	requireNothing(t, other)
}

// Each buffer is written once the one before it was read, by another gate's producer as
// often as not, so a wake-up that is lost ends it all: sleeps last for a minute.
func TestWaitAnyLosesNoWakeUp(t *testing.T) {
	gate.SleepLong(t)
	const gates, channels, rounds = 3, 2, 3000
	ctx, cancel := context.WithTimeout(context.Background(), wait/2)
	defer cancel()
	random := newRandom(t)
	var all []shuffle.InputGate
	var links []*linktest.Link
	for range gates {
		g, l := newGate(t, linktest.Mapped, channels)
		all, links = append(all, g.InputGate), append(links, l...)
	}
	turns, failed := make(chan int), make(chan error, 1)
	go func() {
		defer close(failed)
		for turn := range turns {
			for range turn % 7 {
				runtime.Gosched()
			}
			if err := links[turn%len(links)].Partition.EmitRecord(ctx, make([]byte, segmentSize), 0); err != nil {
				failed <- err
				return
			}
		}
	}()
	for range rounds {
		turn := random.IntN(7 * len(links))
		turns <- turn
		index, err := reader.WaitAny(ctx, all...)
		require.NoError(t, err)
		require.Equal(t, turn%len(links)/channels, index)
		b, ok, err := all[index].TryNext()
		require.NoError(t, err)
		require.True(t, ok)
		require.Equal(t, turn%len(links)%channels, b.Channel)
		require.NoError(t, b.Release())
	}
	close(turns)
	require.NoError(t, <-failed)
}

// What a channel has of a record that is not complete is nothing that a loop goes on with.
func TestGateIsNotAvailableForTheBeginningOfARecordThatWasRead(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	begun := append([]byte{0, 0, 0, 1, 'a', 0, 0, 0, 100}, make([]byte, segmentSize-9)...)
	require.NoError(t, links[0].Partition.EmitRecord(context.Background(), begun, 0))
	sent := make(chan error, 1)
	go func() {
		for !g.IsParked() {
			runtime.Gosched()
		}
		sent <- links[0].Partition.BroadcastEvent(context.Background(), priorityEvent)
	}()
	for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Strings{}) {
		require.NoError(t, err)
		if e.Event != nil {
			require.False(t, g.IsAvailable())
			break
		}
		require.Equal(t, "a", e.Record)
	}
	require.NoError(t, <-sent)
	require.False(t, g.IsAvailable())
}

// A context that has ended is looked at before anything that could be read.
func TestWaitLooksAtItsContextFirst(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	finish(t, links[0])
	require.True(t, g.IsAvailable())
	require.ErrorIs(t, g.WaitAvailable(canceled()), context.Canceled)
	index, err := reader.WaitAny(canceled(), g.InputGate)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, -1, index)
}

func TestWaitAnyRefusesAGateThatIsThereTwice(t *testing.T) {
	g, _ := newGate(t, linktest.Heap, 1)
	_, err := reader.WaitAny(context.Background(), g.InputGate, g.InputGate)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.ErrorContains(t, err, "gate 1 is gate 0")
}
