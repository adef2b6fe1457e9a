package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fileOf returns a file with rounds of a transport, each a Round of one metric.
func fileOf(transport string, metric Metric, values ...float64) *File {
	f := &File{Format: FormatVersion, Workload: "throughput", Machine: Machine{CPU: "Some CPU", Cores: 2,
		Memory: 8 << 30}}
	addRounds(f, transport, metric, values...)
	f.Summarise()
	return f
}

func addRounds(f *File, transport string, metric Metric, values ...float64) {
	for _, v := range values {
		f.Add(Settings{Transport: transport, RecordSize: 100}, Round{metric: v})
	}
	f.Summarise()
}

func compareFiles(t *testing.T, a, b *File, all bool) *Comparison {
	t.Helper()
	c, err := Compare(a, b, all)
	require.NoError(t, err)
	return c
}

func TestVerdicts(t *testing.T) {
	// Of these medians are the same, but nothing else.
	below, above := []float64{1, 1, 1, 1, 5, 5, 5, 5, 5}, []float64{5, 5, 5, 5, 5, 9, 9, 9, 9}
	low, high, middle := []float64{10, 11, 12, 13}, []float64{20, 21, 22, 23}, []float64{10, 11, 12, 14}
	for _, row := range []struct {
		metric Metric
		a, b   []float64
		want   Verdict
	}{
		{RecordsPerS, low, high, Better},
		{RecordsPerS, high, low, Worse},
		{RecordsPerS, low, middle, NoDifference},
		{P99, low, high, Worse},
		{P99, high, low, Better},
		{OtherCores, low, high, Differs},
		{RecordsPerS, low[:3], high[:3], TooFewRounds},
		{RecordsPerS, low[:3], high, TooFewRounds},
		{RecordsPerS, below, above, NoDifference},
		{RecordsPerS, []float64{1, 1, 1, 1}, []float64{1, 1, 1, 1}, NoDifference},
	} {
		c := compareFiles(t, fileOf("shm", row.metric, row.a...), fileOf("shm", row.metric, row.b...), true)
		require.Len(t, c.Rows, 1)
		require.Equal(t, row.want, c.Rows[0].Verdict, "%s: %v and %v", row.metric, row.a, row.b)
		require.Equal(t, 1, c.Count(row.want))
	}
}

func TestComparedMetricHasBothMediansAndTheChange(t *testing.T) {
	c := compareFiles(t, fileOf("shm", RecordsPerS, 10, 20, 30, 40), fileOf("shm", RecordsPerS, 50, 55, 60, 65, 70),
		false)
	row := c.Rows[0]
	require.Equal(t, Estimate{Rounds: 4, Median: 25, Low: 10, High: 40}, row.A)
	require.Equal(t, Estimate{Rounds: 5, Median: 60, Low: 50, High: 70}, row.B)
	require.InDelta(t, 2.0/126, row.P, 1e-9, "of 126 ways to choose 4 of 9")
	change, ok := row.Change()
	require.True(t, ok)
	require.InDelta(t, 140, change, 1e-9)
	_, ok = ComparedMetric{B: row.B}.Change()
	require.False(t, ok, "nothing is a percentage of zero")
}

func TestRatiosAreComparedRoundByRound(t *testing.T) {
	// The machine gets slower and faster for both transports alike.
	a, b := fileOf("shm", RecordsPerS, 20, 200, 40, 80), fileOf("shm", RecordsPerS, 300, 33, 60, 90, 1000)
	addRounds(a, "unix", RecordsPerS, 10, 100, 20, 40)
	addRounds(b, "unix", RecordsPerS, 100, 11, 20, 30) // it ended before the fifth
	c := compareFiles(t, a, b, false)
	require.Len(t, c.Rows, 3, "no ratio of unix to itself")
	row := c.Rows[1]
	require.Equal(t, RatioToUnix, row.Metric)
	require.Equal(t, Estimate{Rounds: 4, Median: 2, Low: 2, High: 2}, row.A)
	require.Equal(t, Estimate{Rounds: 4, Median: 3, Low: 3, High: 3}, row.B)
	require.Equal(t, Better, row.Verdict)
	require.Equal(t, NoDifference, c.Rows[0].Verdict, "of the rates")
}

func TestRatiosOfLatenciesAreBetterWhenLower(t *testing.T) {
	a, b := fileOf("shm", P50, 40, 41, 42, 43), fileOf("shm", P50, 20, 21, 22, 23)
	for _, f := range []*File{a, b} {
		for range 4 {
			f.Add(Settings{Transport: "futex"}, Round{P50: 10})
		}
		f.Summarise()
	}
	row := compareFiles(t, a, b, false).Rows[1]
	require.Equal(t, RatioToFutex, row.Metric)
	require.Equal(t, Better, row.Verdict)
}

func TestOnlyRatiosAreJudgedBetweenMachinesThatDiffer(t *testing.T) {
	a, b := fileOf("shm", RecordsPerS, 20, 21, 22, 23), fileOf("shm", RecordsPerS, 10, 11, 12, 13)
	addRounds(a, "unix", RecordsPerS, 10, 10, 10, 10)
	addRounds(b, "unix", RecordsPerS, 10, 10, 10, 10)
	b.Machine.Cores, b.Machine.Governor, b.Machine.Load, b.Machine.Go = 4, "powersave", 3, "go1.99"
	c := compareFiles(t, a, b, false)
	require.Equal(t, []string{"cores 2 and 4", "governor none and powersave"}, c.Machines)
	require.Equal(t, OtherMachine, c.Rows[0].Verdict)
	require.Equal(t, Worse, c.Rows[1].Verdict, "of the ratio")
	require.Equal(t, 1, c.Count(Worse))
}

func TestPrincipalMetricsAreComparedUnlessAllAreWanted(t *testing.T) {
	round := Round{RecordsPerS: 1, P50: 2, P90: 3, OtherCores: 4, "future": 5}
	f := fileOf("tcp", RecordsPerS)
	f.Add(Settings{Transport: "tcp"}, round)
	f.Add(Settings{Transport: "pipe"}, Round{DaemonThreads: 1})
	f.Summarise()
	names := func(all bool) (list []Metric) {
		for _, row := range compareFiles(t, f, f, all).Rows {
			list = append(list, row.Metric)
		}
		return list
	}
	require.Equal(t, []Metric{RecordsPerS, P50, DaemonThreads}, names(false), "all of what has no principal ones")
	require.Equal(t, []Metric{RecordsPerS, OtherCores, P50, P90, "future", DaemonThreads}, names(true))
}

func TestMetricsOfOneFileOnlyAreLeftOut(t *testing.T) {
	require.Empty(t, compareFiles(t, fileOf("shm", P50, 1), fileOf("shm", P99, 1), true).Rows)
}

func TestCompareListsWhatOneFileHasAlone(t *testing.T) {
	a, b := fileOf("shm", RecordsPerS, 1), fileOf("shm", RecordsPerS, 2)
	addRounds(a, "tcp", RecordsPerS, 1)
	addRounds(b, "pipe", RecordsPerS, 1)
	c := compareFiles(t, a, b, false)
	require.Len(t, c.Rows, 1)
	require.Equal(t, []Settings{{Transport: "tcp", RecordSize: 100}}, c.OnlyA)
	require.Equal(t, []Settings{{Transport: "pipe", RecordSize: 100}}, c.OnlyB)
}

func TestCompareRefusesTwoWorkloads(t *testing.T) {
	other := fileOf("shm", RecordsPerS, 1)
	other.Workload = "latency"
	_, err := Compare(fileOf("shm", RecordsPerS, 1), other, false)
	require.ErrorContains(t, err, "the first are of throughput, the second of latency: take two of one workload")
}

func TestComparisonTable(t *testing.T) {
	a, b := fileOf("shm", RecordsPerS, 10e6, 11e6, 12e6, 13e6), fileOf("shm", RecordsPerS, 20e6, 21e6, 23e6, 24e6)
	addRounds(a, "unix", P50, 17200, 17200)
	addRounds(b, "unix", P50, 0, 0)
	addRounds(a, "tcp", P50, 1)
	b.Machine.Memory = 4 << 30
	var out bytes.Buffer
	require.NoError(t, compareFiles(t, a, b, false).WriteTable(&out))
	text := out.String()
	require.True(t, strings.HasPrefix(text,
		"machines differ: memory 8.0 GiB and 4.0 GiB; only ratios compare\nsettings that do not vary: record_size=100\n\n"), text)
	require.True(t, strings.HasSuffix(text, "\nonly in A: transport=tcp,record_size=100\n"), text)
	require.Contains(t, text, `
settings        figure         A                             B                          change    n    p      verdict
transport=shm   records_per_s  11.50M (10.00M to 13.00M)     22.00M (20.00M to 24.00M)  +91.3 %   4+4  0.029  other machine
transport=unix  p50_ns         17.20µs (17.20µs to 17.20µs)  0 (0 to 0)                 -100.0 %  2+2  0.333  other machine
`)
	b.Machine = a.Machine
	out.Reset()
	require.NoError(t, compareFiles(t, b, a, false).WriteTable(&out))
	require.Regexp(t, `transport=shm .* -47\.7 % +4\+4 +0\.029 +worse\n`, out.String())
	require.Regexp(t, `transport=unix .* - +2\+2 +0\.333 +too few rounds: needs 4\n`, out.String())
	require.NotContains(t, out.String(), "machines differ")
}

func TestComparisonTableNamesSettingsThatDoNotVaryOnce(t *testing.T) {
	f := &File{Format: FormatVersion, Workload: "throughput"}
	for _, s := range []Settings{
		{Transport: "shm", RecordSize: 16, Via: "emit", Waiting: "parked", Pinned: "on"},
		{Transport: "shm", RecordSize: 100, Via: "emit", Pinned: "on"},
		{Transport: "unix", RecordSize: 16, Pinned: "on"},
	} {
		f.Add(s, Round{P50: 1})
	}
	f.Summarise()
	var out bytes.Buffer
	require.NoError(t, compareFiles(t, f, f, false).WriteTable(&out))
	require.Contains(t, out.String(), "settings that do not vary: via=emit,pinned=on\n")
	for _, row := range []string{"transport=shm,record_size=16,waiting=parked ", "transport=shm,record_size=100 ",
		"transport=unix,record_size=16 "} {
		require.Contains(t, out.String(), "\n"+row)
	}
}
