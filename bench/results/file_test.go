package results

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMedian(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{3}, 3},
		{[]float64{1, 2}, 1.5},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{2, 2, 2, 100}, 2},
	} {
		require.InDelta(t, row.want, Median(row.values), 1e-12, "%v", row.values)
	}
}

func TestMedianLeavesItsValuesInOrder(t *testing.T) {
	values := []float64{3, 1, 2}
	Median(values)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestRatio(t *testing.T) {
	for _, row := range []struct{ v, base, want float64 }{{6, 3, 2}, {3, 6, 0.5}, {3, 0, 0}, {0, 3, 0}} {
		require.InDelta(t, row.want, ratio(row.v, row.base), 1e-12, "%v of %v", row.v, row.base)
	}
}

// sampleFile has everything a throughput can have, and in its last measurement as
// little as it can.
func sampleFile() *File {
	f := &File{Format: FormatVersion, Workload: "throughput", Machine: Machine{
		CPU: "Some CPU", Cores: 2, GoMaxProcs: 2, Kernel: "6.1.0", THP: "madvise", ShmemTHP: "never", Memory: 8 << 30,
		MemoryLimit: 4 << 30, NoFile: 1024, Go: "go1.26.0 linux/amd64", Governor: "performance", Load: 0.25,
		Caches: []Cache{{1, "data", 32 << 10}, {2, "unified", 1 << 20}},
	}}
	add := func(transport string, size int, rates ...float64) {
		for _, rate := range rates {
			f.Add(Settings{Transport: transport, RecordSize: size, Producers: 1, Consumers: 1},
				Round{RecordsPerS: rate, BytesPerS: rate * float64(size), CPUSPerGiB: 0.5})
		}
	}
	add("shm", 100, 60e6, 20e6, 80e6)
	add("ceiling", 100, 120e6, 100e6, 110e6)
	add("unix", 100, 30e6, 20e6, 40e6)
	f.Results[2].Rounds[0][OtherCores] = 0.75
	add("shm", 70_000, 1e5)
	delete(f.Results[3].Rounds[0], CPUSPerGiB)
	f.Summarise()
	return f
}

func TestFileSummarisesMediansAndRatiosOfTheSameSettings(t *testing.T) {
	f := sampleFile()
	require.Len(t, f.Results, 4)
	shm, ceiling, unix, large := f.Results[0], f.Results[1], f.Results[2], f.Results[3]
	require.InDelta(t, 60e6, shm.MedianRecordsPerS, 1)
	require.InDelta(t, 6e9, shm.Medians[BytesPerS], 1)
	require.InDelta(t, 60.0/110, shm.RatioToCeiling, 1e-9)
	require.InDelta(t, 2.0, shm.RatioToUnix, 1e-9)
	require.InDelta(t, 1.0, ceiling.RatioToCeiling, 1e-9)
	require.InDelta(t, 1.0, unix.RatioToUnix, 1e-9)
	require.Zero(t, large.RatioToCeiling, "there is no ceiling of this size")
	require.Zero(t, large.RatioToUnix)
	require.NotContains(t, large.Medians, CPUSPerGiB)
}

func TestFileJSONIsAsDocumented(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sampleFile().WriteJSON(&out))
	want, err := os.ReadFile("testdata/throughput.json")
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

func TestFileJSONLeavesOutWhatWasNotMeasured(t *testing.T) {
	var out bytes.Buffer
	f := &File{Format: FormatVersion, Workload: "throughput", Machine: Machine{Cores: 2, GoMaxProcs: 2, Go: "go1.26.0"}}
	f.Add(Settings{Transport: "tcp", RecordSize: 100, Producers: 4, Consumers: 4}, Round{})
	f.Summarise()
	require.NoError(t, f.WriteJSON(&out))
	var got any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, map[string]any{
		"format": 1.0, "workload": "throughput",
		"machine": map[string]any{"cores": 2.0, "gomaxprocs": 2.0, "go": "go1.26.0"},
		"results": []any{map[string]any{
			"transport": "tcp", "record_size": 100.0, "producers": 4.0, "consumers": 4.0,
			"rounds": []any{map[string]any{}},
		}},
	}, got)
}

func TestTableShowsADashForWhatWasNotMeasured(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sampleFile().WriteTable(&out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5)
	require.Equal(t, strings.Fields("100 B shm 60.0 20.0 80.0 6.00 0.500 0.55 x 2.00 x"), strings.Fields(lines[1]))
	require.Equal(t, strings.Fields("70000 B shm 0.100 0.100 0.100 7.00 - - -"), strings.Fields(lines[4]))
}
