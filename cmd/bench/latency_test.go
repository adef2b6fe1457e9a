package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/results"
)

func TestLatencyMeasuresEveryCombinationAndWritesTheReport(t *testing.T) {
	folder := t.TempDir()
	path, histograms := filepath.Join(folder, "report.json"), filepath.Join(folder, "new", "hdr")
	got := runProgram(t, bench.NoFault, "latency", "--seconds", "0.05", "--rounds", "2", "--rate", "2000,1e5", "--size",
		"16", "--json", path, "--hdr", histograms)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "plan: 2 rounds of 50ms and a warm-up of 10ms for each of 13 combinations")
	require.Equal(t, 26, strings.Count(got.stdout, "\nround "))

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var report results.File
	require.NoError(t, json.Unmarshal(b, &report))
	require.Equal(t, "latency", report.Workload)
	require.Len(t, report.Results, 13)
	transports := []string{"shm", "unix", "tcp", "pipe", "shm", "unix", "tcp", "pipe", "shm", "futex", "unix", "shm",
		"cache-line"}
	for i, m := range report.Results {
		require.Equal(t, transports[i], m.Transport)
		require.Len(t, m.Rounds, 2)
		require.Len(t, m.Percentiles, 8)
		for p := range 7 {
			require.LessOrEqual(t, m.Percentiles[p].Ns, m.Percentiles[p+1].Ns)
		}
		require.EqualValues(t, max(m.Rounds[0][results.Highest], m.Rounds[1][results.Highest]), m.Percentiles[7].Ns)
		for _, round := range m.Rounds {
			require.Positive(t, round[results.P50])
			require.LessOrEqual(t, round[results.P50], round[results.Highest])
			require.Equal(t, m.Path == "one-way", round[results.AchievedPerS] > 0)
			require.NotContains(t, round, results.RecordsPerS)
		}
		require.Equal(t, m.Transport == "futex" || m.Transport == "cache-line", m.RecordSize == 0)
	}
	require.Positive(t, report.Results[8].RatioToFutex)
	require.Positive(t, report.Results[11].RatioToCacheLine)
	require.Zero(t, report.Results[0].RatioToFutex)

	files, err := filepath.Glob(filepath.Join(histograms, "*.hgrm"))
	require.NoError(t, err)
	require.Len(t, files, 13)
	log, err := os.Open(filepath.Join(histograms, "one-way-pipe-spinning-16B-2000-per-s.hlog"))
	require.NoError(t, err)
	defer log.Close()
	h, err := hdrhistogram.NewHistogramLogReader(log).NextIntervalHistogram()
	require.NoError(t, err)
	require.Positive(t, h.TotalCount())
}

func TestLatencyOfRecordsThatSpanBuffersIsMeasured(t *testing.T) {
	got := runProgram(t, bench.NoFault, "latency", "--seconds", "0.05", "--rounds", "1", "--rate", "100", "--size",
		"100000", "--transports", "shm,unix", "--flush-timeout", "0,1ms", "--waiting", "both")
	require.Equal(t, exitOK, got.code, got.stderr)
	for _, row := range []string{
		"one-way shm spinning, 100000 bytes, 100/s, flush 0 ", "one-way shm spinning, 100000 bytes, 100/s, flush 1ms ",
		"one-way unix spinning, 100000 bytes, 100/s ",
		"round-trip shm parked, 100000 bytes ", "round-trip shm spinning, 100000 bytes ",
		"round-trip unix parked, 100000 bytes ",
	} {
		require.Contains(t, got.stdout, "round 1: "+row)
	}
}

func TestLatencyWithoutSpinning(t *testing.T) {
	got := runProgram(t, bench.NoFault, "latency", "--seconds", "0.05", "--rounds", "1", "--rate", "1000",
		"--transports", "pipe,shm,futex", "--waiting", "parked")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "round 1: one-way pipe parked, 100 bytes, 1000/s ")
	require.Contains(t, got.stdout, "round 1: round-trip futex parked ")
	require.NotContains(t, got.stdout, "spinning")
}

// latencyRows are the arguments for each single combination, with what its name
// begins with.
var latencyRows = map[string][]string{
	"one-way shm spinning, 100 bytes":    {"--path", "one-way", "--transports", "shm"},
	"one-way unix spinning, 100 bytes":   {"--path", "one-way", "--transports", "unix"},
	"one-way tcp spinning, 100 bytes":    {"--path", "one-way", "--transports", "tcp"},
	"one-way pipe spinning, 100 bytes":   {"--path", "one-way", "--transports", "pipe"},
	"round-trip shm parked, 100 bytes":   {"--path", "round-trip", "--transports", "shm", "--waiting", "parked"},
	"round-trip shm spinning, 100 bytes": {"--path", "round-trip", "--transports", "shm", "--waiting", "spinning"},
	"round-trip unix parked, 100 bytes":  {"--path", "round-trip", "--transports", "unix"},
	"round-trip futex parked":            {"--path", "round-trip", "--transports", "futex"},
	"round-trip cache-line spinning":     {"--path", "round-trip", "--transports", "cache-line"},
}

func TestLatencyNoticesAFlippedByteOnEveryRow(t *testing.T) {
	for name, args := range latencyRows {
		got := runProgram(t, bench.FlipByte, append([]string{"latency", "--seconds", "10", "--rate", "50000"},
			args...)...)
		require.Equal(t, exitFailed, got.code, "%s: %s", name, got.stdout)
		what := "record 1000, number 1000 of producer 0: byte 99 of 100 is "
		if !strings.Contains(name, "bytes") {
			what = "record 1000 is number 1016: wrong content"
		}
		require.Regexp(t, "bench latency: "+name+`.*, round 1: consumer 0: `+what, got.stderr)
	}
}

func TestLatencyEndsWhenAWorkerDies(t *testing.T) {
	for name, args := range latencyRows {
		for fault, worker := range map[bench.Fault]string{bench.DieProducing: "producer",
			bench.DieConsuming: "consumer"} {
			got := runProgram(t, fault, append([]string{"latency", "--seconds", "10", "--rate", "50000"}, args...)...)
			require.Equal(t, exitFailed, got.code, "%s %s: %s", name, fault, got.stdout)
			require.Regexp(t, "bench latency: "+name+`.*, round 1: `+worker+
				` 0: process \d+ ended without a result: signal: killed\n`, got.stderr)
		}
	}
}
