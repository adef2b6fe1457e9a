package client

import (
	"context"
	"io/fs"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/daemon"
	"shuffled/internal/test/leaktest"
	"shuffled/shuffle"
)

func TestDialWaitsForADaemonThatIsNotThereYet(t *testing.T) {
	leaktest.Check(t)
	path := filepath.Join(t.TempDir(), "s")
	dialed := make(chan error, 1)
	go func() {
		c, err := Dial(testContext(t), WithSocket(path), WithWait())
		if err == nil {
			err = c.Close()
		}
		dialed <- err
	}()
	_, err := Dial(testContext(t), WithSocket(path))
	require.ErrorIs(t, err, fs.ErrNotExist, "without waiting")

	server, err := daemon.NewServer(testConfig())
	require.NoError(t, err)
	listener, err := net.Listen("unixpacket", path)
	require.NoError(t, err)
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), listener) }()
	require.NoError(t, <-dialed)
	require.NoError(t, server.Close())
	require.NoError(t, <-served)
}

func TestDialGivesUpWaitingWithItsContext(t *testing.T) {
	leaktest.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	path := filepath.Join(t.TempDir(), "s")
	_, err := Dial(ctx, WithSocket(path), WithWait())
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, path)
	require.ErrorContains(t, err, "is the daemon running")
}

func TestDialDoesNotWaitForWhatDoesNotHeal(t *testing.T) {
	config := testConfig()
	config.Limits.Connections = 1
	d := startDaemon(t, config)
	d.dial(t)
	_, err := Dial(testContext(t), WithSocket(d.path), WithWait())
	require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
	_, err = Dial(testContext(t), WithSocket("/"+string(make([]byte, 200))), WithWait())
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
}

func TestDoneTellsWhenAndErrWhyTheConnectionHasEnded(t *testing.T) {
	d := startDaemon(t, testConfig())
	lost, closed := d.dial(t), d.dial(t)
	require.NoError(t, lost.Err())
	select {
	case <-lost.Done():
		require.Fail(t, "it is connected")
	default:
	}
	require.NoError(t, closed.Close())
	<-closed.Done()
	require.ErrorIs(t, closed.Err(), shuffle.ErrClosed)

	require.NoError(t, d.Close())
	<-lost.Done()
	require.ErrorIs(t, lost.Err(), shuffle.ErrDaemonLost)
	require.NoError(t, lost.Close())
	require.ErrorIs(t, lost.Err(), shuffle.ErrDaemonLost, "why it has ended")
}

// A name is enough for both sides, and is what everybody is told.
func TestPartitionIsFoundByItsNameAlone(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	p := create(t, c, shuffle.PartitionSpec{Name: "job-7/map-0", Subpartitions: 1})
	require.Equal(t, shuffle.NamedPartitionID("job-7/map-0"), p.ID())
	inputs := []shuffle.Input{{Name: "job-7/map-0"}, {Name: "job-7/map-1"}}
	gate, err := c.OpenGate(testContext(t), shuffle.GateSpec{Inputs: inputs, Timeout: time.Millisecond})
	require.NoError(t, err)
	require.True(t, inputs[0].Partition.IsZero(), "the caller's spec is left as it was")
	require.NoError(t, p.EmitRecord(testContext(t), framed("x"), 0))
	require.NoError(t, p.Finish(testContext(t)))
	sawMissing, read := false, 0
	for {
		b, err := gate.Next(testContext(t))
		if err != nil {
			require.ErrorContains(t, err, "job-7/map-1")
			require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)
			if sawMissing {
				break // and once more when all have ended
			}
			sawMissing = true
			continue
		}
		read += len(b.Bytes())
		require.NoError(t, b.Release())
	}
	require.Positive(t, read)
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
}
