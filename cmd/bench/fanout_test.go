package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/results"
)

func TestFanoutMeasuresEveryNumberOfSubpartitions(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.NoFault, "fanout", "--subpartitions", "1,8,40", "--seconds", "0.5", "--rounds", "1",
		"--producers", "2",
		"--processes", "3", "--json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout,
		"plan: 2 producers, a process each; a consumer for each subpartition, in 3 processes; 1 round of 500ms for each of 6 combinations")
	file := readResults(t, path)
	require.Equal(t, "fanout", file.Workload)
	require.Empty(t, file.Partial)
	require.Len(t, file.Results, 6)
	for i, m := range file.Results {
		require.Equal(t, []int{1, 8, 40}[i/2], m.Subpartitions)
		require.Equal(t, []string{"shm", "unix"}[i%2], m.Transport)
		require.Equal(t, []int{1, 3, 3}[i/2], m.Consumers)
		require.Len(t, m.Rounds, 1)
		r := m.Rounds[0]
		require.Positive(t, r[results.RecordsPerS])
		require.Positive(t, r[results.CostPerRecord])
		require.Positive(t, m.RatioToUnix)
		require.Equal(t, i >= 2, m.RatioToEight > 0, "the smallest number has fewer processes")
		if m.Transport == "unix" {
			require.NotContains(t, r, results.WakeupsPerMiB)
			require.NotContains(t, r, results.PeakPerSubpartition)
			continue
		}
		require.Equal(t, "100ms", m.FlushTimeout)
		require.Positive(t, r[results.WakeupsPerMiB])
		require.Positive(t, r[results.MemoryPerGate])
		require.Positive(t, r[results.UnusedPerSubpartition])
		require.Less(t, r[results.UnusedPerSubpartition], 32768.0, "no segment is backed before the first record")
		require.GreaterOrEqual(t, r[results.PeakPerSubpartition], r[results.UnusedPerSubpartition])
		require.LessOrEqual(t, r[results.MemoryPerSubpartition], r[results.PeakPerSubpartition])
	}
}

func TestFanoutNoticesAFlippedByteOnEveryTransport(t *testing.T) {
	for _, transport := range bench.FanoutTransports {
		got := runProgram(t, bench.FlipByte, "fanout", "--subpartitions", "20", "--transports", string(transport),
			"--seconds", "0.05")
		require.Equal(t, exitFailed, got.code, "%s: %s", transport, got.stdout)
		require.Contains(t, got.stderr,
			"bench fanout: "+string(transport)+", 20 subpartitions, round 1: consumer 0: record ")
		require.Contains(t, got.stderr, ", number 1000 of producer 0: byte 99 of 100 is ")
	}
}

func TestFanoutEndsWhenAWorkerDies(t *testing.T) {
	for _, transport := range bench.FanoutTransports {
		for fault, want := range map[bench.Fault]string{
			bench.DieProducing: `producer 0: process \d+ ended without a result: signal: killed`,
			bench.DieConsuming: `consumer 0: process \d+ ended without a result: signal: killed`,
		} {
			got := runProgram(t, fault, "fanout", "--subpartitions", "20", "--transports", string(transport),
				"--seconds", "5", "--rounds", "1")
			require.Equal(t, exitFailed, got.code, "%s %s: %s", transport, fault, got.stdout)
			require.Regexp(t, want, got.stderr, "%s %s", transport, fault)
		}
	}
}

func TestFanoutKeepsTheRoundsBeforeAFailure(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.DieConsuming.InRound(2), "fanout", "--subpartitions", "4", "--transports", "shm",
		"--seconds", "0.02", "--rounds", "2", "--json", path)
	require.Equal(t, exitFailed, got.code, got.stdout)
	file := readResults(t, path)
	require.Contains(t, file.Partial, "shm, 4 subpartitions, round 2: consumer 0: ")
	require.Len(t, file.Results, 1)
	require.Len(t, file.Results[0].Rounds, 1)
}
