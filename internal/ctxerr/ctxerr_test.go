package ctxerr_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/ctxerr"
	"shuffled/ipc"
	"shuffled/shuffle"
)

func ended(cause error) context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return ctx
}

func TestAContextThatGoesOnHasNoError(t *testing.T) {
	require.NoError(t, ctxerr.Of(context.Background()))
}

func TestWithoutACauseTheErrorIsTheContexts(t *testing.T) {
	require.Equal(t, context.Canceled, ctxerr.Of(ended(nil)))
	ctx, cancel := context.WithDeadline(context.Background(), time.Now())
	defer cancel()
	require.Equal(t, context.DeadlineExceeded, ctxerr.Of(ctx))
}

func TestBothTheContextsErrorAndTheUsersCauseAreFound(t *testing.T) {
	cause := &net.OpError{Op: "read", Err: net.ErrClosed}
	err := ctxerr.Of(ended(fmt.Errorf("source: %w", cause)))
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, net.ErrClosed)
	var found *net.OpError
	require.ErrorAs(t, err, &found)
	require.Same(t, cause, found)
	require.EqualError(t, err, "context canceled: source: read: use of closed network connection")
}

// A cause may be the error of another gate: what happened there is no news of
// this one.
func TestASentinelOfOursInACauseIsNotFound(t *testing.T) {
	for _, own := range []error{io.EOF, io.ErrUnexpectedEOF, shuffle.ErrProducerLost, shuffle.ErrPartitionFailed,
		shuffle.ErrClosed} {
		cause := fmt.Errorf("other gate: %w", own)
		err := ctxerr.Of(ended(cause))
		require.NotErrorIs(t, err, own)
		require.ErrorIs(t, err, cause, "what the user has made is found, whatever it wraps")
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorContains(t, err, own.Error())
	}
}

func TestAnErrorTypeOfOursInACauseIsNotFound(t *testing.T) {
	err := ctxerr.Of(ended(&ipc.RemoteError{Message: "of another call"}))
	var remote *ipc.RemoteError
	require.NotErrorAs(t, err, &remote)
}
