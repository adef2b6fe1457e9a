package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/results"
)

func TestThroughputMeasuresEveryTransportAndWritesTheReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.NoFault, "throughput", "-size", "16,100", "-seconds", "0.02", "-rounds", "2", "-json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "daemon: a server within this process\n")
	require.Contains(t, got.stdout, "plan: 1 producer and 1 consumer, a process each; 2 rounds of 20ms for each of 10 combinations")
	require.Equal(t, 20, strings.Count(got.stdout, "\nround "))

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var report results.File
	require.NoError(t, json.Unmarshal(b, &report))
	require.NotEmpty(t, report.Machine.Kernel)
	require.Len(t, report.Results, 10)
	for i, m := range report.Results {
		require.Equal(t, string(bench.Transports[i%5]), m.Transport)
		require.Equal(t, []int{16, 100}[i/5], m.RecordSize)
		require.Len(t, m.Rounds, 2)
		for _, round := range m.Rounds {
			require.Positive(t, round[results.RecordsPerS])
			require.InEpsilon(t, round[results.RecordsPerS]*float64(m.RecordSize), round[results.BytesPerS], 1e-9)
		}
		require.InEpsilon(t, (m.Rounds[0][results.RecordsPerS]+m.Rounds[1][results.RecordsPerS])/2, m.MedianRecordsPerS, 1e-9)
		require.Positive(t, m.RatioToCeiling)
		require.Positive(t, m.RatioToUnix)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file")
}

func TestThroughputOfSeveralWorkersLeavesTheCeilingOut(t *testing.T) {
	got := runProgram(t, bench.NoFault, "throughput", "-producers", "2", "-consumers", "3", "-seconds", "0.02", "-rounds", "1")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "left out: ceiling with 100 bytes: it has one producer and one consumer")
	for _, transport := range []string{"shm", "unix", "tcp", "pipe"} {
		require.Regexp(t, `round 1: +100 B +`+transport+` `, got.stdout)
	}
}

func TestThroughputNoticesAFlippedByteOnEveryTransport(t *testing.T) {
	for _, transport := range bench.Transports {
		got := runProgram(t, bench.FlipByte, "throughput", "-transports", string(transport), "-seconds", "0.1", "-rounds", "1")
		require.Equal(t, exitFailed, got.code, "%s: %s", transport, got.stdout)
		require.Contains(t, got.stderr, "bench throughput: "+string(transport)+
			", 100 bytes, round 1: consumer 0: record 1000, number 1000 of producer 0: byte 99 of 100 is ")
	}
	got := runProgram(t, bench.FlipByte, "throughput", "-transports", "shm", "-producers", "2", "-consumers", "2", "-seconds", "0.1")
	require.Equal(t, exitFailed, got.code, got.stdout)
	require.Regexp(t, `consumer [01]: record \d+, number 1000 of producer 0: byte 99 of 100 is `, got.stderr)
}

func TestThroughputEndsWhenAWorkerDies(t *testing.T) {
	for _, transport := range bench.Transports {
		for fault, want := range map[bench.Fault]string{
			bench.DieProducing: `round 1: producer 0: process \d+ ended without a result: signal: killed\n`,
			bench.DieConsuming: `round 1: consumer 0: process \d+ ended without a result: signal: killed\n`,
		} {
			got := runProgram(t, fault, "throughput", "-transports", string(transport), "-seconds", "5", "-rounds", "1")
			require.Equal(t, exitFailed, got.code, "%s %s: %s", transport, fault, got.stdout)
			require.Regexp(t, want, got.stderr, "%s %s", transport, fault)
		}
	}
}
