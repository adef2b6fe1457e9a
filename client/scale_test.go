package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
)

func TestGateWithMoreInputsThanFitAMessageMapsEachPartitionOnce(t *testing.T) {
	const subpartitions = 2500
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(subpartitions)
	inputs := reader.GateSpec{Name: "wide"}
	for i := range subpartitions {
		inputs.Inputs = append(inputs.Inputs, reader.Input{Partition: s.ID, Subpartition: i})
	}
	gate, err := consumer.OpenGate(testContext(t), inputs)
	require.NoError(t, err)
	p := create(t, producer, s)
	require.NoError(t, p.BroadcastRecord(testContext(t), framed("to all")))
	for i := range subpartitions {
		require.NoError(t, p.EmitRecord(testContext(t), framed("to one"), i))
	}
	require.NoError(t, p.Finish(testContext(t)))
	// The producer's region and doorbell, and the gate's; of each the daemon's view,
	// its owner's and one for all peers together.
	require.LessOrEqual(t, memseg.LiveMappings(), int64(2+8))
	got := readAll(t, gate)
	require.Len(t, got, subpartitions)
	for channel, records := range got {
		require.Equal(t, []string{"to all", "to one"}, records, "channel %d", channel)
	}
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}

func TestListPagesThroughManyPartitions(t *testing.T) {
	config := testConfig()
	config.Limits.ControlMemory = 1 << 30
	d := startDaemon(t, config)
	c := d.dial(t)
	want := make(map[shuffle.PartitionID]bool)
	for range 400 {
		s := spec(1)
		s.Name = string(make([]byte, shuffle.MaxNameLength))
		create(t, c, s)
		want[s.ID] = true
	}
	rows, err := c.List(testContext(t))
	require.NoError(t, err)
	require.Len(t, rows, len(want))
	for _, row := range rows {
		require.True(t, want[row.ID])
		delete(want, row.ID)
		require.Equal(t, "running", row.State)
		require.True(t, row.ProducerAttached)
		require.Equal(t, 2, row.PoolRequired)
	}
}
