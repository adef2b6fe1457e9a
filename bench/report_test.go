package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

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
		require.InDelta(t, row.want, median(row.values), 1e-12, "%v", row.values)
	}
}

func TestMedianLeavesItsValuesInOrder(t *testing.T) {
	values := []float64{3, 1, 2}
	median(values)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestRatio(t *testing.T) {
	for _, row := range []struct{ v, base, want float64 }{{6, 3, 2}, {3, 6, 0.5}, {3, 0, 0}, {0, 3, 0}} {
		require.InDelta(t, row.want, ratio(row.v, row.base), 1e-12, "%v of %v", row.v, row.base)
	}
}

func TestSpansReachFromTheFirstStartToTheLastEnd(t *testing.T) {
	for _, row := range []struct {
		name      string
		spans     []Span
		wall, cpu time.Duration
	}{
		{"none", nil, 0, 0},
		{"one", []Span{{Start: 5, End: 9, CPU: 3}}, 4, 3},
		{"overlapping", []Span{{Start: 5, End: 9, CPU: 3}, {Start: 3, End: 7, CPU: 4}}, 6, 7},
		{"one within the other", []Span{{Start: 1, End: 9, CPU: 1}, {Start: 3, End: 7, CPU: 1}}, 8, 2},
	} {
		wall, cpu := spans(row.spans)
		require.Equal(t, row.wall, wall, row.name)
		require.Equal(t, row.cpu, cpu, row.name)
	}
}

// sampleReport has everything a report can have, and in its last measurement as
// little as it can.
func sampleReport() *Report {
	r := &Report{Machine: Machine{
		CPU: "Some CPU", Cores: 2, GoMaxProcs: 2, Kernel: "6.1.0", THP: "madvise", ShmemTHP: "never", Memory: 8 << 30,
		MemoryLimit: 4 << 30, NoFile: 1024, Go: "go1.26.0 linux/amd64", Governor: "performance", Load: 0.25,
		Caches: []Cache{{1, "data", 32 << 10}, {2, "unified", 1 << 20}},
	}}
	add := func(t Transport, size int, rates ...float64) {
		m := r.measurement(t, size, 1, 1)
		for _, rate := range rates {
			m.Rounds = append(m.Rounds, Round{RecordsPerS: rate, BytesPerS: rate * float64(size), CPUSPerGiB: 0.5})
		}
	}
	add(Shm, 100, 60e6, 20e6, 80e6)
	add(Ceiling, 100, 120e6, 100e6, 110e6)
	add(Unix, 100, 30e6, 20e6, 40e6)
	r.Results[2].Rounds[0].OtherCores = 0.75
	add(Shm, 70_000, 1e5)
	r.Results[3].Rounds[0].CPUSPerGiB = 0
	r.summarise()
	return r
}

func TestReportSummarisesMediansAndRatiosOfTheSameSize(t *testing.T) {
	r := sampleReport()
	require.Len(t, r.Results, 4)
	shm, ceiling, unix, large := r.Results[0], r.Results[1], r.Results[2], r.Results[3]
	require.InDelta(t, 60e6, shm.MedianRecordsPerS, 1)
	require.InDelta(t, 6e9, shm.MedianBytesPerS, 1)
	require.InDelta(t, 60.0/110, shm.RatioToCeiling, 1e-9)
	require.InDelta(t, 2.0, shm.RatioToUnix, 1e-9)
	require.InDelta(t, 1.0, ceiling.RatioToCeiling, 1e-9)
	require.InDelta(t, 1.0, unix.RatioToUnix, 1e-9)
	require.Zero(t, large.RatioToCeiling, "there is no ceiling of this size")
	require.Zero(t, large.RatioToUnix)
}

func TestReportJSONIsAsDocumented(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sampleReport().WriteJSON(&out))
	want, err := os.ReadFile("testdata/report.json")
	require.NoError(t, err)
	require.Equal(t, string(want), out.String())
}

func TestReportJSONLeavesOutWhatWasNotMeasured(t *testing.T) {
	var out bytes.Buffer
	r := &Report{Machine: Machine{Cores: 2, GoMaxProcs: 2, Go: "go1.26.0"}}
	r.measurement(TCP, 100, 4, 4).Rounds = []Round{{}}
	r.summarise()
	require.NoError(t, r.WriteJSON(&out))
	var got any
	require.NoError(t, json.Unmarshal(out.Bytes(), &got))
	require.Equal(t, map[string]any{
		"machine": map[string]any{"cores": 2.0, "gomaxprocs": 2.0, "go": "go1.26.0"},
		"results": []any{map[string]any{
			"transport": "tcp", "record_size": 100.0, "producers": 4.0, "consumers": 4.0, "rounds": []any{map[string]any{}},
		}},
	}, got)
}

func TestTableShowsADashForWhatWasNotMeasured(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, sampleReport().WriteTable(&out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	require.Len(t, lines, 5)
	require.Equal(t, strings.Fields("100 B shm 60.0 20.0 80.0 6.00 0.500 0.55 x 2.00 x"), strings.Fields(lines[1]))
	require.Equal(t, strings.Fields("70000 B shm 0.100 0.100 0.100 7.00 - - -"), strings.Fields(lines[4]))
}

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123"} {
		require.Equal(t, want, groupDigits(n))
	}
	for n, want := range map[int64]string{5: "5 bytes", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"} {
		require.Equal(t, want, formatBytes(n))
	}
	for v, want := range map[float64]string{153e6: "153", 47.26e6: "47.3", 1.5e6: "1.50", 0.25e6: "0.250"} {
		require.Equal(t, want, formatMillions(v))
	}
	require.Equal(t, "1 file", plural(1, "file"))
	require.Equal(t, "2,000 files", plural(2000, "file"))
}
