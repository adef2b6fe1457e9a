package results

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadReturnsWhatWasWritten(t *testing.T) {
	want := sampleFile()
	path := filepath.Join(t.TempDir(), "results.json")
	var out bytes.Buffer
	require.NoError(t, want.WriteJSON(&out))
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	got, err := Read(path)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestReadWorksOutMediansAndRatiosFromTheRounds(t *testing.T) {
	f, err := ReadFrom(strings.NewReader(`{"format": 1, "workload": "future", "machine": {"cores": 1, "gomaxprocs": 1, "go": ""}, "results": [
		{"transport": "shm", "rounds": [{"records_per_s": 1, "future": 7}, {"records_per_s": 3}], "median_records_per_s": 9, "medians": {"p50_ns": 5}, "ratio_to_unix": 4}
	]}`))
	require.NoError(t, err)
	require.Equal(t, "future", f.Workload)
	require.Equal(t, Round{RecordsPerS: 2, "future": 7}, f.Results[0].Medians)
	require.InDelta(t, 2, f.Results[0].MedianRecordsPerS, 0)
	require.Zero(t, f.Results[0].RatioToUnix, "there is nothing to compare with")
}

func TestReadSaysWhatIsWrongAndWhere(t *testing.T) {
	valid := func(results string) string {
		return `{"format": 1, "workload": "throughput", "results": ` + results + `}`
	}
	for _, row := range []struct{ text, want string }{
		{"", "not JSON: line 1: unexpected end of JSON input"},
		{"{\n\n  'format': 1}", `not JSON: line 3: invalid character '\''`},
		{"{\"format\": 1,\n \"workload\": \"throughput\"", "not JSON: line 2: unexpected end"},
		{valid("[]") + "\nmore", "not JSON: line 2: invalid character 'm' after top-level value"},
		{"[1, 2]", "not a result file: line 1: it is a JSON array, want an object"},
		{"null", `not a result file: it has no "format" and "workload"`},
		{`{"workload": "throughput"}`, "not a result file"},
		{`{"format": "1", "workload": "throughput"}`,
			"not a result file: line 1: format is a JSON string, want a whole number"},
		{`{"format": 2, "workload": "throughput", "new": 1}`,
			"it has format 2, this program reads 1: measure again or use the bench that wrote it"},
		{valid("[]"), "it has no results"},
		{valid(`{}`), "results is a JSON object, want an array"},
		{valid(`[null]`), "results[0] has no rounds"},
		{valid(`[{"transport": "shm", "rounds": []}]`), "results[0] has no rounds"},
		{valid("[\n{\"rounds\": [{\"p50_ns\": \"1us\"}]}]"), "line 2: results.rounds"},
		{valid(`[{"transport": "shm", "flavour": 1, "rounds": [{}]}]`),
			`it has the field "flavour", which this program does not know`},
		{valid(`[{"transport": "shm", "rounds": [{}]}, {"transport": "shm", "rounds": [{}]}]`),
			"results[1] has the settings of results[0]: transport=shm"},
		{valid(`[{"rounds": [{}, {"p50_ns": -1}]}]`), "results[0], round 2: p50_ns is -1, want 0 or 1e-30 to 1e+30"},
		{valid(`[{"rounds": [{"p50_ns": 1e300}]}]`), "p50_ns is 1e+300"},
		{strings.Repeat(" ", maxFileSize+1), "larger than 64 MiB"},
	} {
		_, err := ReadFrom(strings.NewReader(row.text))
		require.ErrorContains(t, err, row.want)
	}
}

func TestReadNamesTheFile(t *testing.T) {
	folder := t.TempDir()
	_, err := Read(filepath.Join(folder, "missing.json"))
	require.ErrorIs(t, err, os.ErrNotExist)
	path := filepath.Join(folder, "empty.json")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	_, err = Read(path)
	require.ErrorContains(t, err, path+": not JSON")
}

func FuzzRead(f *testing.F) {
	sample, err := os.ReadFile("testdata/throughput.json")
	require.NoError(f, err)
	f.Add(sample)
	f.Fuzz(func(t *testing.T, text []byte) {
		first, err := ReadFrom(bytes.NewReader(text))
		if err != nil {
			return
		}
		var written, again bytes.Buffer
		require.NoError(t, first.WriteJSON(&written))
		second, err := ReadFrom(bytes.NewReader(written.Bytes()))
		require.NoError(t, err)
		require.NoError(t, second.WriteJSON(&again))
		require.Equal(t, written.String(), again.String())
		_, err = Compare(first, second, true)
		require.NoError(t, err)
		require.NoError(t, first.WriteGoBenchmark(&again))
	})
}
