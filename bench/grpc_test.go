package bench

import (
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// connectedCalls returns the ends of connections between producers and consumers.
func connectedCalls(t *testing.T, producers, consumers int) (out, in [][]net.Conn) {
	t.Helper()
	out, in = make([][]net.Conn, producers), make([][]net.Conn, consumers)
	for p := range producers {
		for c := range consumers {
			w, r, err := GRPC.connect()
			require.NoError(t, err)
			dialled, err := connOf(w)
			require.NoError(t, err)
			accepted, err := connOf(r)
			require.NoError(t, err)
			out[p], in[c] = append(out[p], dialled), append(in[c], accepted)
		}
	}
	return out, in
}

// callAndSend sends the records of a source over connections.
func callAndSend(t *testing.T, conns []net.Conn, distribution Distribution, source *recordSource) error {
	var calls []*callToConsumer
	for _, conn := range conns {
		call, hangUp, err := dialCall(t.Context(), conn)
		if err != nil {
			return err
		}
		defer hangUp()
		calls = append(calls, call)
	}
	return produceIntoCalls(calls, distribution.selector(), source)
}

func TestRecordsPassCalls(t *testing.T) {
	for _, size := range []int{MinRecordSize, 100, 8000, 5 << 20} {
		out, in := connectedCalls(t, 1, 1)
		source, checker := newRecordSource(size, 0), newRecordChecker(size)
		source.runFor(0)
		var timer spanTimer
		server := serveCalls(in[0], []*recordChecker{checker}, &timer)
		produced := make(chan error, 1)
		go func() { produced <- callAndSend(t, out[0], Keyed, source) }()
		require.NoError(t, server.wait())
		server.close(false)
		require.NoError(t, <-produced)
		require.Equal(t, source.made(), checker.count())
	}
}

func TestCallServerNoticesAFlippedByteAndEndsTheCall(t *testing.T) {
	out, in := connectedCalls(t, 1, 1)
	source := sourceOfTurns(100)
	source.flip = faultAfter
	var timer spanTimer
	server := serveCalls(in[0], []*recordChecker{newRecordChecker(100)}, &timer)
	produced := make(chan error, 1)
	go func() { produced <- callAndSend(t, out[0], Keyed, source) }()
	err := server.wait()
	server.close(true)
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "record 1000, number 1000 of producer 0: byte 99 of 100")
	require.ErrorIs(t, <-produced, errCallLost)
}

func TestCallsOfSeveralProducersAndConsumers(t *testing.T) {
	const size, producers, consumers = 100, 3, 2
	for _, distribution := range distributions {
		out, in := connectedCalls(t, producers, consumers)
		var timer spanTimer
		var servers []*callServer
		for c := range consumers {
			task := recordConsumer{Exchange: Exchange{Producers: producers, Consumers: consumers},
				Distribution: distribution, Size: size, Index: c}
			checkers, err := task.checkers()
			require.NoError(t, err)
			servers = append(servers, serveCalls(in[c], checkers, &timer))
		}
		produced := make(chan error, producers)
		var sources []*recordSource
		for p := range producers {
			source := newRecordSource(size, p)
			source.runFor(0)
			sources = append(sources, source)
			go func() { produced <- callAndSend(t, out[p], distribution, source) }()
		}
		for range producers {
			require.NoError(t, <-produced)
		}
		sent, received := int64(0), int64(0)
		for _, source := range sources {
			sent += source.made()
		}
		for _, server := range servers {
			require.NoError(t, server.wait())
			server.close(false)
			res := consumed(timer.end(), server.checkers...)
			require.Positive(t, res.Records)
			received += res.Records
		}
		require.Equal(t, sent, received)
	}
}

func TestCallThatIsCutIsAConsequence(t *testing.T) {
	out, in := connectedCalls(t, 1, 1)
	var timer spanTimer
	server := serveCalls(in[0], []*recordChecker{newRecordChecker(100)}, &timer)
	call, hangUp, err := dialCall(t.Context(), out[0][0])
	require.NoError(t, err)
	source := newRecordSource(100, 0)
	source.fill()
	require.NoError(t, call.Send(&wrapperspb.BytesValue{Value: source.record(0)}))
	// A call that is cut before it was noticed has no end.
	require.Eventually(t, func() bool { return server.answered.Load() == 1 }, time.Minute, time.Millisecond)
	hangUp()
	err = server.wait()
	server.close(true)
	require.ErrorIs(t, err, errCallLost)
	require.True(t, newFailure(err).Consequence)
}
