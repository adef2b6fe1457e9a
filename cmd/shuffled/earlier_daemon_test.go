package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/daemontest"
	"shuffled/shuffle"
)

func TestRestartedDaemonCountsWhatTheWorkersOfTheKilledOneHold(t *testing.T) {
	first := start(t)
	c := dial(t, first)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
		Type: shuffle.Pipelined, Subpartitions: 1})
	require.NoError(t, err)
	const held = 16 << 20
	record := make([]byte, 1<<20)
	record[3] = 1 // whatever it says of itself
	for range held / len(record) {
		require.NoError(t, p.EmitRecord(testContext(t), record, 0))
	}
	first.Kill()

	second := daemontest.Start(t, daemontest.Options{Env: []string{asProgram}, Socket: first.Socket})
	line := second.WaitForLog("memory of an earlier daemon is still held; so much less is lent until it is given back")
	require.Equal(t, "WARN", line["level"])
	require.GreaterOrEqual(t, line["bytes"], float64(held))
	m := second.Metrics()
	require.GreaterOrEqual(t, m[`shuffled_shm_bytes{state="earlier_daemon"}`], float64(held))
	require.LessOrEqual(t, m[`shuffled_shm_bytes{state="free"}`], float64(64<<20-held))
	requireStatesAddUp(t, m)
	require.NoError(t, p.Close())
	eventually(t, "it is lent again",
		func() bool { return second.Metrics()[`shuffled_shm_bytes{state="earlier_daemon"}`] == 0 })
	require.Equal(t, float64(64<<20), second.Metrics()[`shuffled_shm_bytes{state="free"}`])
}
