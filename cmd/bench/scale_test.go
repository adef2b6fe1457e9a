package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/results"
)

func TestScaleMeasuresEveryNumberOfPartitions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.NoFault, "scale", "--partitions", "1,40", "--idle", "20ms", "--json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "daemon: a server within this process\n")
	file := readResults(t, path)
	require.Equal(t, "scale", file.Workload)
	require.Empty(t, file.Partial)
	require.Len(t, file.Results, 2)
	for i, m := range file.Results {
		n := []int{1, 40}[i]
		require.Equal(t, n, m.Partitions)
		r := m.Rounds[0]
		require.GreaterOrEqual(t, r[results.AttachP99], r[results.AttachP50])
		require.GreaterOrEqual(t, r[results.AttachP50], r[results.CreateP50]/2)
		for _, metric := range []results.Metric{
			results.CreateP50, results.OpenP50, results.DaemonMemory, results.DaemonMemoryAfter, results.DaemonThreads,
			results.WorkerMemory, results.WorkerThreads,
		} {
			require.Positive(t, r[metric], metric)
		}
		require.Contains(t, r, results.DaemonIdleCores)
		require.Contains(t, r, results.WorkerIdleCores)
		require.GreaterOrEqual(t, r[results.SharedMemory], float64(n*2*32768), "two segments for each partition")
	}
	require.GreaterOrEqual(t, file.Results[1].Rounds[0][results.DaemonFiles],
		file.Results[0].Rounds[0][results.DaemonFiles]+4*39)
}

func TestScaleNoticesAFlippedByte(t *testing.T) {
	got := runProgram(t, bench.FlipByte, "scale", "--partitions", "3", "--idle", "1ms")
	require.Equal(t, exitFailed, got.code, got.stdout)
	require.Contains(t, got.stderr,
		"bench scale: 3 partitions, round 1: consumer 0: record 1 of partition 2 differs from its pattern: wrong content")
}

func TestScaleEndsWhenAWorkerDies(t *testing.T) {
	for fault, want := range map[bench.Fault]string{
		bench.DieProducing: `producer 0: process \d+ ended without a result: signal: killed`,
		bench.DieConsuming: `consumer 0: process \d+ ended without a result: signal: killed`,
	} {
		got := runProgram(t, fault, "scale", "--partitions", "3", "--idle", "1ms")
		require.Equal(t, exitFailed, got.code, "%s: %s", fault, got.stdout)
		require.Regexp(t, want, got.stderr, fault)
	}
}
