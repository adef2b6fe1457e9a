package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

// writeResults writes rounds of shm and returns the path.
func writeResults(t *testing.T, workload, partial string, rates ...float64) string {
	t.Helper()
	f := results.New(workload)
	f.Partial = partial
	for _, rate := range rates {
		f.Add(results.Settings{Transport: "shm"}, results.Round{results.RecordsPerS: rate, results.OtherCores: 1})
	}
	path := filepath.Join(t.TempDir(), "results.json")
	file, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, f.WriteJSON(file))
	require.NoError(t, file.Close())
	return path
}

func runCompare(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr strings.Builder
	code := run(t.Context(), append([]string{"compare"}, args...), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestCompareSaysWhatIsWorseAndFailsOnDemand(t *testing.T) {
	fast, slow := writeResults(t, "throughput", "", 20, 21, 22, 23), writeResults(t, "throughput", "it was stopped", 10,
		11, 12, 13)
	got := runCompare(t, fast, slow)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `^A: \S+: throughput of .*\nB: \S+: throughput of .*, partial: it was stopped\n`, got.stdout)
	require.Regexp(t,
		`\ntransport=shm +records_per_s +21\.5 \(20 to 23\) +11\.5 \(10 to 13\) +-46\.5 % +4\+4 +0\.029 +worse\n`,
		got.stdout)
	require.NotContains(t, got.stdout, "other_cores")

	for _, args := range [][]string{{"--fail-on-worse", fast, slow}, {fast, slow, "--fail-on-worse"},
		{fast, "--fail-on-worse", slow}} {
		got = runCompare(t, args...)
		require.Equal(t, exitFailed, got.code)
		require.Contains(t, got.stderr, "bench compare: 1 of 1 figures are worse")
		require.Contains(t, got.stdout, " worse\n")
	}
	require.Equal(t, exitOK, runCompare(t, "--fail-on-worse", slow, fast).code)
	require.Contains(t, runCompare(t, "--all", fast, slow).stdout, "other_cores")
}

func TestCompareFailsWhenThereIsNothingToCompare(t *testing.T) {
	a, other := writeResults(t, "throughput", "", 1), writeResults(t, "latency", "", 1)
	damaged := filepath.Join(t.TempDir(), "damaged.json")
	require.NoError(t, os.WriteFile(damaged, []byte("{"), 0o600))
	text, err := os.ReadFile(a)
	require.NoError(t, err)
	tcp := filepath.Join(t.TempDir(), "tcp.json")
	require.NoError(t, os.WriteFile(tcp, []byte(strings.ReplaceAll(string(text), `"shm"`, `"tcp"`)), 0o600))
	for _, row := range []struct{ a, b, want string }{
		{a, other, "the first are of throughput, the second of latency"},
		{a, damaged, "damaged.json: not JSON: line 1"},
		{a, filepath.Join(filepath.Dir(a), "missing"), "no such file"},
		{a, tcp, "nothing to compare"},
	} {
		got := runCompare(t, row.a, row.b)
		require.Equal(t, exitFailed, got.code)
		require.Contains(t, got.stderr, row.want)
	}
	require.Contains(t, runCompare(t, a, tcp).stdout, "only in A: transport=shm\nonly in B: transport=tcp\n")
}
