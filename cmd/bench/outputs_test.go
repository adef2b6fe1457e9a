package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

func TestOutputsAreWrittenWhole(t *testing.T) {
	folder := t.TempDir()
	o := outputs{json: filepath.Join(folder, "a.json"), benchfmt: filepath.Join(folder, "a.txt")}
	var stdout strings.Builder
	require.NoError(t, o.keep(&stdout, func() (*results.File, error) { return measured(), nil }))
	require.Contains(t, stdout.String(), "results: "+o.json+"\nresults: "+o.benchfmt+"\n")
	f, err := results.Read(o.json)
	require.NoError(t, err)
	require.Len(t, f.Results, 4)
	text, err := os.ReadFile(o.benchfmt)
	require.NoError(t, err)
	require.Contains(t, string(text), "\nBenchmarkThroughput/transport=shm/record_size=100 1 ")
	requireFiles(t, folder, "a.json", "a.txt")
}

func requireFiles(t *testing.T, folder string, want ...string) {
	t.Helper()
	var names []string
	entries, err := os.ReadDir(folder)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, want, names)
}

func TestFailedRunLeavesTheFileThatWasThere(t *testing.T) {
	folder := t.TempDir()
	o := outputs{json: filepath.Join(folder, "a.json")}
	require.NoError(t, os.WriteFile(o.json, []byte("before"), 0o600))
	failure := errors.New("it failed")
	require.ErrorIs(t, o.keep(&strings.Builder{}, func() (*results.File, error) { return nil, failure }), failure)
	text, err := os.ReadFile(o.json)
	require.NoError(t, err)
	require.Equal(t, "before", string(text))
	requireFiles(t, folder, "a.json")
}

func TestPartialResultsAreKeptWithTheError(t *testing.T) {
	o := outputs{json: filepath.Join(t.TempDir(), "a.json")}
	failure := errors.New("it failed")
	var stdout strings.Builder
	require.ErrorIs(t, o.keep(&stdout, func() (*results.File, error) { return measured().End(failure) }), failure)
	require.Contains(t, stdout.String(), "\npartial: it failed\n")
	f, err := results.Read(o.json)
	require.NoError(t, err)
	require.Equal(t, "it failed", f.Partial)
}

func TestFilesThatCannotBeWrittenAreFoundBeforeTheRun(t *testing.T) {
	folder := t.TempDir()
	link := filepath.Join(folder, "link")
	require.NoError(t, os.Symlink("elsewhere", link))
	for _, row := range []struct {
		o    outputs
		want string
	}{
		{outputs{json: filepath.Join(folder, "missing", "a.json")}, "give a file in a folder that exists with --json"},
		{outputs{benchfmt: filepath.Join(folder, "missing", "a.txt")},
			"give a file in a folder that exists with --benchfmt"},
		{outputs{json: folder}, "is no regular file: give a new name or a file to replace with --json"},
		{outputs{json: "/dev/null"}, "is no regular file"},
		{outputs{json: link}, "is no regular file"},
		{outputs{json: filepath.Join(folder, "a"), benchfmt: filepath.Join(folder, "a")},
			"--json and --benchfmt name the same file"},
	} {
		err := row.o.keep(&strings.Builder{}, func() (*results.File, error) {
			require.Fail(t, "it ran", row.want)
			return nil, nil
		})
		require.ErrorContains(t, err, row.want)
		requireFiles(t, folder, "link")
	}
}

func TestAssertionsAreCheckedAfterTheTableAndTheFile(t *testing.T) {
	o := outputs{json: filepath.Join(t.TempDir(), "a.json")}
	for _, text := range []string{"ratio_to_unix>=2.5", "ratio_to_unix>=1", "record_size=7: ratio_to_unix>=1"} {
		a, err := parseAssertion(text)
		require.NoError(t, err)
		o.assertions = append(o.assertions, a)
	}
	var stdout strings.Builder
	err := o.keep(&stdout, func() (*results.File, error) { return measured(), nil })
	require.EqualError(t, err, "2 of 3 assertions failed")
	require.FileExists(t, o.json)
	_, after, found := strings.Cut(stdout.String(), "results: ")
	require.True(t, found)
	require.Equal(t, 5, strings.Count(after, "\nassert "), after)
}
