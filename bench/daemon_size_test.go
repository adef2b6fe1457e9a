package bench

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
	"shuffled/pool"
)

func TestDaemonIsSizedForWhatItWillHave(t *testing.T) {
	small, err := sizeFor(1, 1, 1, 1, true)
	require.NoError(t, err)
	require.Equal(t, daemonSize{daemonMemory, daemonMemory / 4}, small)

	const n = 50_000
	least, err := sizeFor(n, 1, n, 1, false)
	require.NoError(t, err)
	require.EqualValues(t, n*2*pool.DefaultSegmentSize, least.memory)
	most, err := sizeFor(n, 1, n, 1, true)
	require.NoError(t, err)
	perPartition := pool.DefaultBuffersPerChannel + pool.FloatingBuffers(pool.DefaultSegmentSize,
		pool.DefaultFloatingBytes(1))
	require.EqualValues(t, n*perPartition*pool.DefaultSegmentSize, most.memory)
	require.Equal(t, least.control, most.control)

	_, err = sizeFor(1, 1<<21, 1, 1, true)
	require.ErrorIs(t, err, memseg.ErrLayout)
	_, err = sizeFor(1, 1, 1, 1<<21, true)
	require.ErrorIs(t, err, memseg.ErrLayout)
}

func TestControlMemoryOfADaemonIsWhatItsPartitionsAndGatesTake(t *testing.T) {
	d, c := daemonWithin(t)
	const partitions, subpartitions = 2, 1000
	e := Exchange{Name: newExchangeName(), Producers: partitions, Consumers: subpartitions, local: c}
	for i := range partitions {
		p, err := e.create(t.Context(), c, i)
		require.NoError(t, err)
		defer func() { require.NoError(t, p.Close()) }()
	}
	gate, err := e.open(t.Context(), c, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, gate.Close()) }()

	// All of it is backed from the beginning, but for the markers of segments; segments
	// are with the first records.
	objects, err := sharedObjects(d.pid)
	require.NoError(t, err)
	backed := int64(0)
	for _, o := range objects {
		backed += o.backed
	}
	const manyTimes = 1000 // more than the default holds
	size, err := sizeFor(partitions*manyTimes, subpartitions, manyTimes, partitions, true)
	require.NoError(t, err)
	require.InDelta(t, backed, size.control/manyTimes, partitions*3*subpartitions*64)
}
