package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

// resultFile writes a result file of a workload.
func resultFile(t *testing.T, path, workload string) string {
	t.Helper()
	f := results.New(workload)
	f.Add(results.Settings{Transport: "shm", RecordSize: 100}, results.Round{results.RecordsPerS: 60e6})
	f.Summarise()
	var text bytes.Buffer
	require.NoError(t, f.WriteJSON(&text))
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, text.Bytes(), 0o644))
	return path
}

func runReport(t *testing.T, args ...string) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := run(t.Context(), append([]string{"report"}, args...), &stdout, &stderr)
	return outcome{code, stdout.String(), stderr.String()}
}

func TestReportIsAPageOfAllFiles(t *testing.T) {
	folder := t.TempDir()
	a, b := resultFile(t, filepath.Join(folder, "a.json"), "throughput"), resultFile(t, filepath.Join(folder, "b.json"),
		"latency")
	output := filepath.Join(folder, "page.html")
	for _, args := range [][]string{{a, b, "-o", output}, {"-o", output, a, b}, {a, "-o=" + output, b}} {
		require.NoError(t, os.RemoveAll(output))
		got := runReport(t, args...)
		require.Equal(t, exitOK, got.code, got.stderr)
		require.Equal(t, "report: "+output+", of 2 files\n", got.stdout)
		page, err := os.ReadFile(output)
		require.NoError(t, err)
		require.Contains(t, string(page), "<title>shuffled bench: Throughput, latency, ")
		require.Contains(t, string(page), `<th scope="row" class="word">a.json</th>`)
		require.NotContains(t, string(page), folder)
		require.Equal(t, string(page), runReport(t, a, b, "-o", "-").stdout)
	}
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 3, "no temporary file")
}

func TestReportNamesFilesByFolderWhereOnlyThatDiffers(t *testing.T) {
	folder := t.TempDir()
	a, b := resultFile(t, filepath.Join(folder, "1/a.json"), "throughput"),
		resultFile(t, filepath.Join(folder, "2/a.json"), "throughput")
	got := runReport(t, a, b, "-o", "-")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "Throughput: "+a)
	require.Contains(t, got.stdout, "Throughput: "+b)
}

func TestReportRefusesWhatItCannotShow(t *testing.T) {
	folder := t.TempDir()
	a := resultFile(t, filepath.Join(folder, "a.json"), "throughput")
	link, text, old, missing := filepath.Join(folder, "link.json"), filepath.Join(folder, "text"),
		filepath.Join(folder, "old.json"), filepath.Join(folder, "missing")
	require.NoError(t, os.Symlink(a, link))
	require.NoError(t, os.WriteFile(text, []byte("some text"), 0o644))
	require.NoError(t, os.WriteFile(old, []byte(`{"format": 99, "workload": "throughput"}`), 0o644))
	before, err := os.ReadFile(a)
	require.NoError(t, err)
	for _, row := range []struct {
		args []string
		code int
		want string
	}{
		{nil, exitUsage, "no files, want some that --json wrote: bench report"},
		{[]string{"-o", "x.html"}, exitUsage, "no files"},
		{[]string{a, "-o", ""}, exitUsage, "--output has no name"},
		{[]string{a, "-x"}, exitUsage, `unknown flag "-x": want one of --help, --output`},
		{[]string{a, a, "-o", "-"}, exitUsage, "are the same file, name each once"},
		{[]string{a, link, "-o", "-"}, exitUsage, a + " and " + link + " are the same file"},
		{[]string{a, "-o", a}, exitUsage, "would replace " + a},
		{[]string{missing, "-o", "-"}, exitFailed, "no such file"},
		{[]string{text, "-o", "-"}, exitFailed, text + ": not JSON"},
		{[]string{old, "-o", "-"}, exitFailed, "it has format 99"},
		{[]string{a, "-o", filepath.Join(missing, "page.html")}, exitFailed,
			"give a file in a folder that exists with --output"},
		{[]string{a, "-o", folder}, exitFailed, "is no regular file"},
	} {
		got := runReport(t, row.args...)
		require.Equal(t, row.code, got.code, "%q: %s", row.args, got.stderr)
		require.Contains(t, got.stderr, row.want, "%q", row.args)
		require.Empty(t, got.stdout, "%q", row.args)
	}
	after, err := os.ReadFile(a)
	require.NoError(t, err)
	require.Equal(t, before, after)
}
