package bench

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bareWords returns the two words of a page of our own.
func bareWords() (ping, pong *bareWord) {
	mem := make([]byte, barePageSize)
	return bareWordAt(mem, pingWordAt), bareWordAt(mem, pongWordAt)
}

func TestBareRoundTripsAreAnsweredAndEnd(t *testing.T) {
	for _, waiting := range []Waiting{Parked, Spinning} {
		ping, pong := bareWords()
		answered := make(chan int64, 1)
		go func() {
			n, err := (&barePonger{Waiting: waiting}).pong(t.Context(), ping, pong)
			if err != nil {
				n = -1
			}
			answered <- n
		}()
		trips := startTrips(time.Millisecond, 5*time.Millisecond)
		require.NoError(t, (&barePinger{Waiting: waiting}).ping(t.Context(), ping, pong, trips))
		require.Equal(t, trips.count, <-answered, "%s", waiting)
		require.Positive(t, trips.latencies.count())
		require.LessOrEqual(t, trips.latencies.count(), trips.count, "the warm-up is not kept")
	}
}

func TestBarePongerRefusesAWrongNumber(t *testing.T) {
	ping, pong := bareWords()
	ping.store(2)
	_, err := (&barePonger{Waiting: Spinning}).pong(t.Context(), ping, pong)
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "record 1 is number 2")
	require.Zero(t, pong.load())
}

func TestBareWaitEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, waiting := range []Waiting{Parked, Spinning} {
		ping, pong := bareWords()
		err := (&barePinger{Waiting: waiting}).ping(ctx, ping, pong, startTrips(0, time.Hour))
		require.ErrorIs(t, err, context.Canceled, "%s", waiting)
	}
}
