//go:build !race

// The race detector reports what is done here.

package client

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/reader"
	"shuffled/shuffle"
)

// Whoever ends a partition, in whatever way, while others write it: the process lives,
// their errors have names, its consumer gets whole records in order, and an end only
// behind everything that was emitted.
func TestProcessWhoseGoroutinesWriteAndEndAPartitionAtOnce(t *testing.T) {
	d := startDaemon(t, testConfig())
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childRole+"=careless writers",
		childPartition+"="+shuffle.NewPartitionID().String(), SocketVariable+"="+d.path)
	child.Stderr = os.Stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	defer func() { _ = child.Process.Kill() }() // unless it has ended
	ctx, cancel := context.WithTimeout(context.Background(), 20*patience)
	defer cancel()
	c := d.dial(t)
	lines := json.NewDecoder(stdout)
	refused, ends := make(map[string]uint64), make(map[string]int)
	for range carelessRounds {
		var begun, over carelessRound
		require.NoError(t, lines.Decode(&begun), "the process has ended")
		gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: begun.ID}},
			Timeout: time.Hour})
		require.NoError(t, err)
		var read [2]uint64
		var end error
		for rec, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
			if err != nil {
				end = err
				break
			}
			require.NoError(t, begun.check(rec, &read), begun.Ends)
		}
		require.NoError(t, gate.Close())
		require.NoError(t, lines.Decode(&over))
		require.True(t, over.IsOver)
		require.Empty(t, over.Error)
		switch {
		case over.Finished:
			require.NoError(t, end)
			require.GreaterOrEqual(t, read[0], over.Emitted[0])
			require.GreaterOrEqual(t, read[1], over.Emitted[1])
		case begun.Ends == "fail":
			require.ErrorIs(t, end, shuffle.ErrPartitionFailed)
		case begun.Ends == "release":
			require.ErrorIs(t, end, shuffle.ErrPartitionReleased)
		default:
			require.ErrorIs(t, end, shuffle.ErrProducerLost)
		}
		for name, n := range over.Refused {
			refused[name] += n
		}
		if end == nil {
			end = errors.New("the end")
		}
		ends[begun.Ends+": "+nameOf(end)]++
	}
	require.NoError(t, child.Wait())
	require.NotZero(t, refused[shuffle.ErrConcurrentUse.Error()])
	require.NotZero(t, refused[shuffle.ErrClosed.Error()])
	require.NotZero(t, refused[shuffle.ErrFinished.Error()])
	t.Log(refused, ends)
}
