package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/client"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/reader"
	"shuffled/shuffle"
)

// daemonWithin starts one within this process.
func daemonWithin(t *testing.T) (*service, *client.Client) {
	t.Helper()
	t.Setenv("PATH", "")
	t.Setenv("TMPDIR", t.TempDir())
	d, err := findDaemon(t.Context(), "")
	require.NoError(t, err)
	t.Cleanup(d.stop)
	c, err := client.Dial(t.Context(), client.WithSocket(d.socket))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return d, c
}

func TestSharedObjectsOfADaemonAreThoseOfItsPartitionsAndGates(t *testing.T) {
	d, c := daemonWithin(t)
	before, err := sharedObjects(d.pid)
	require.NoError(t, err)
	require.Empty(t, before)
	mappings := memseg.LiveMappings()

	e := Exchange{Name: newExchangeName(), Producers: 1, Consumers: 3, local: c}
	gate, err := e.open(t.Context(), c, 2)
	require.NoError(t, err)
	partition, err := e.create(t.Context(), c, 0)
	require.NoError(t, err)
	view, err := viewShared(d.pid, before)
	require.NoError(t, err)
	require.Len(t, view.partitions, 1)
	require.Len(t, view.gates, 1)
	bytes, err := view.partitionBytes()
	require.NoError(t, err)
	require.Positive(t, bytes)
	require.Less(t, bytes, int64(4*pool.DefaultSegmentSize), "no segment is backed before the first record")
	require.EqualValues(t, 3*4096, view.gateBytes, "a region and two doorbells, a page each")

	objects, err := sharedObjects(d.pid)
	require.NoError(t, err)
	require.Len(t, objects, 4)
	again, err := viewShared(d.pid, objects)
	require.NoError(t, err)
	require.Empty(t, again.partitions)
	require.Zero(t, again.gateBytes)

	// The gate counts a wait, which is there to be read after its end.
	require.NoError(t, partition.EmitRecord(t.Context(), []byte{0, 0, 0, 1, 'x'}, 2))
	require.NoError(t, partition.Finish(t.Context()))
	for record, err := range reader.Records(t.Context(), gate, shuffle.Bytes{}) {
		require.NoError(t, err)
		require.Equal(t, "x", string(record))
	}
	n, err := view.wakeUps()
	require.NoError(t, err)
	require.NoError(t, gate.Close())
	require.NoError(t, partition.Release(t.Context())) // two subpartitions have no consumer
	require.NoError(t, partition.Close())
	after, err := view.wakeUps()
	require.NoError(t, err)
	require.Equal(t, n, after)
	view.close()
	require.Eventually(t, func() bool {
		objects, err := sharedObjects(d.pid)
		return err == nil && len(objects) == 0 && memseg.LiveMappings() == mappings
	}, patience, pollInterval)
}

func TestSharedObjectsOfNoProcess(t *testing.T) {
	_, err := sharedObjects(-1)
	require.ErrorContains(t, err, "look at descriptors")
	_, err = viewShared(-1, nil)
	require.ErrorContains(t, err, "look at descriptors")
}
