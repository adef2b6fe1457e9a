package profile

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
	"shuffled/internal/bpf"
)

var update = flag.Bool("update", false, "write what is got to testdata")

// requireText compares a report with a file of testdata.
func requireText(t *testing.T, name string, reports ...*Report) {
	t.Helper()
	var text strings.Builder
	for _, r := range reports {
		require.NoError(t, r.WriteText(&text))
	}
	path := filepath.Join("testdata", name)
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text.String()), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, string(want), text.String())
}

// socketFile is the outcome of four rounds that were watched and four that were
// not.
func socketFile(t *testing.T) *results.File {
	t.Helper()
	r := &recording{missing: []bpf.Missing{{Part: "hand-offs", Err: errors.New("no executable was given")}}}
	for i := range uint64(8) {
		r.snapshots = append(r.snapshots, socketCounts(i*10))
	}
	p, f := newProfiler(r.source(), true), results.New("throughput")
	require.NoError(t, observe(p, unixSettings, f, 8, 10<<20, func(i int) float64 {
		return []float64{100e6, 92e6, 94e6, 100e6, 101e6, 91e6, 93e6, 99e6}[i]
	}))
	p.Finish(f)
	return f
}

func TestAReportHasAllThatWasMeasuredByRole(t *testing.T) {
	f := socketFile(t)
	f.Results[1].Profile.Handoff = &results.Handoff{Buffers: 640, Bytes: 640 << 15,
		Latency: results.Histogram{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 10, 50, 5}}
	requireText(t, "report.txt", Describe(f)...)
}

func TestAReportOfProcMarksWhatIsNotMeasured(t *testing.T) {
	folder := t.TempDir()
	writeProc(t, folder, producerPID, 7)
	writeProc(t, folder, consumerPID, 7)
	p, f := newProfiler(newProcSource(folder, "run as root, or with CAP_BPF and CAP_PERFMON"), true),
		results.New("throughput")
	require.False(t, p.Compares(), "reading files costs nothing to speak of")
	require.Equal(t, "run as root, or with CAP_BPF and CAP_PERFMON", p.Unsupported())
	require.NoError(t, p.Begin(unixSettings, pair))
	writeProc(t, folder, producerPID, 17)
	writeProc(t, folder, consumerPID, 17)
	require.NoError(t, p.Stop())
	round, err := p.End(20 << 20)
	require.NoError(t, err)
	f.Add(unixSettings, round)
	p.Finish(f)
	require.Empty(t, f.Results[0].Probes)
	// The time that passes is not the same every time.
	f.Results[0].Profile.Seconds = 2
	requireText(t, "report_proc.txt", Describe(f)...)
}

func TestFiguresWithoutRecordsAreBySecond(t *testing.T) {
	f := socketFile(t)
	p := f.Results[1].Profile
	p.PayloadBytes, p.Seconds = 0, 5
	var text strings.Builder
	require.NoError(t, Describe(f)[0].WriteText(&text))
	require.Contains(t, text.String(), "per second ")
	require.Regexp(t, `(?m)^system calls +272 +256$`, text.String())
	require.Regexp(t, `(?m)^copied from user memory, bytes +8,388,608 +0$`, text.String())
}

func TestReportsSayWhatTellsThemApart(t *testing.T) {
	f := results.New("throughput")
	for _, s := range []results.Settings{
		{Transport: "shm", RecordSize: 16, Producers: 1, Via: "emit", Probes: "on"},
		{Transport: "shm", RecordSize: 16, Producers: 1, Via: "reserve", Probes: "on"},
		{Transport: "unix", RecordSize: 16, Producers: 1, Probes: "on"},
		{Transport: "unix", RecordSize: 16, Producers: 1, Probes: "off"},
	} {
		m := f.Add(s, results.Round{})
		if s.Probes == "on" {
			m.Profile = &results.Profile{Source: results.FromBPF, Seconds: 1}
		}
	}
	var titles []string
	for _, r := range Describe(f) {
		title, _, _ := strings.Cut(r.Title, ":")
		titles = append(titles, title)
	}
	require.Equal(t, []string{"shm, 16 B, via emit", "shm, 16 B, via reserve", "unix, 16 B"}, titles)
}

func TestOverheadIsSaidInWords(t *testing.T) {
	for _, row := range []struct {
		overhead results.Overhead
		want     string
	}{
		{results.Overhead{Metric: results.RecordsPerS, With: 9e6, Without: 10e6, CostPercent: 10, P: 0.01},
			"records/s: the probes cost 10.0 %, 9.000M with them, 10.00M without"},
		{results.Overhead{Metric: results.RecordsPerS, With: 9e6, Without: 9.1e6, CostPercent: 1.1, P: 0.2},
			"records/s: what the probes cost is within the noise of the rounds, 9.000M with them, 9.100M without"},
		{results.Overhead{Metric: results.CPUSPerGiB, With: 0.44, Without: 0.4, CostPercent: 10, P: 0.01},
			"cpu-s/GiB: the probes add 10.0 %, 0.44 with them, 0.4 without"},
		{results.Overhead{Metric: results.P50, With: 5500, Without: 6000, CostPercent: -8.3, P: 0.01},
			"p50-ns: the probes cost nothing that could be measured, 5.500µs with them, 6.000µs without"},
		{results.Overhead{Metric: results.RecordsPerS, With: 9e6, Without: 10e6, CostPercent: 10, P: 1},
			"records/s: it takes more rounds to tell what the probes cost, 9.000M with them, 10.00M without"},
	} {
		require.Equal(t, row.want, overheadLine(row.overhead))
	}
}

func TestNumbersHaveThreeDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 0.0123: "0.0123", 0.00001234: "0.0000123", 3e-7: "3.00e-07", 12.3456: "12.3", 123.456: "123",
		999.7: "1,000", 1234567.8: "1,234,568",
	} {
		require.Equal(t, want, number(v))
	}
}
