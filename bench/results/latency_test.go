package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRoundTripsCompareWithTheBareOnesThatWaitAlike(t *testing.T) {
	f := &File{Format: FormatVersion, Workload: "latency"}
	add := func(transport, waiting string, size int, p50 float64) *Measurement {
		return f.Add(Settings{Transport: transport, Path: "round-trip", Waiting: waiting, RecordSize: size},
			Round{P50: p50})
	}
	parked, spinning := add("shm", "parked", 100, 6000), add("shm", "spinning", 100, 600)
	parked.FlushTimeout = "0"
	unix, futex, line := add("unix", "parked", 100, 12000), add("futex", "parked", 0, 4000),
		add("cache-line", "spinning", 0, 200)
	oneWay := f.Add(Settings{Transport: "shm", Path: "one-way", Waiting: "parked", RecordSize: 100, RatePerS: 1000},
		Round{P50: 3000})
	f.Summarise()
	require.InDelta(t, 1.5, parked.RatioToFutex, 1e-9)
	require.InDelta(t, 0.5, parked.RatioToUnixP50, 1e-9)
	require.InDelta(t, 3.0, spinning.RatioToCacheLine, 1e-9)
	require.InDelta(t, 3.0, unix.RatioToFutex, 1e-9)
	require.InDelta(t, 1.0, futex.RatioToFutex, 1e-9)
	require.InDelta(t, 1.0, line.RatioToCacheLine, 1e-9)
	require.Zero(t, parked.RatioToCacheLine)
	require.Zero(t, spinning.RatioToFutex)
	require.Zero(t, oneWay.RatioToFutex, "one way is no round trip")
	require.Zero(t, oneWay.RatioToCacheLine)
	require.Zero(t, parked.RatioToUnix, "no rate was measured")
}

func TestMeasurementIsSaturatedIfItsRateWasNotReached(t *testing.T) {
	for _, row := range []struct {
		planned, achieved float64
		want              bool
	}{{0, 0, false}, {0, 5, false}, {1000, 0, false}, {1000, 989, true}, {1000, 991, false}, {1000, 1001, false}} {
		require.Equal(t, row.want, IsSaturated(row.planned, row.achieved), "%v", row)
	}
	f := &File{}
	m := f.Add(Settings{Transport: "pipe", Path: "one-way", RatePerS: 1e6}, Round{AchievedPerS: 123456.7, P50: 1})
	m.Percentiles = []Percentile{{50, 1500}, {99.9, 2_000_000}, {100, 60_000_000_000}}
	f.Summarise()
	require.True(t, m.Saturated)
	var out bytes.Buffer
	require.NoError(t, f.WriteTable(&out))
	require.Contains(t, out.String(), "1000000  123456 saturated")
	require.Contains(t, strings.Fields(out.String()), "1.500µs")
	require.Contains(t, strings.Fields(out.String()), "60.00s")
}
