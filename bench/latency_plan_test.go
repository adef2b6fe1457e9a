package bench

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

func names(plan []latencyPlan) (list []string) {
	for _, p := range plan {
		list = append(list, p.String())
	}
	return list
}

func TestLatencyPlanHasEveryCombinationThatThereIs(t *testing.T) {
	l := Latency{
		Paths: paths, Transports: LatencyTransports, Waitings: []Waiting{Parked, Spinning},
		Sizes: []int{16}, Rates: []float64{1000}, FlushTimeouts: []time.Duration{0, time.Millisecond},
	}
	require.Equal(t, []string{
		"one-way shm spinning, 16 bytes, 1000/s, flush 0",
		"one-way shm spinning, 16 bytes, 1000/s, flush 1ms",
		"one-way unix spinning, 16 bytes, 1000/s",
		"one-way tcp spinning, 16 bytes, 1000/s",
		"one-way pipe spinning, 16 bytes, 1000/s",
		"round-trip shm parked, 16 bytes",
		"round-trip futex parked",
		"round-trip unix parked, 16 bytes",
		"round-trip shm spinning, 16 bytes",
		"round-trip cache-line spinning",
	}, names(l.plan()))
}

func TestLatencyPlanMeasuresBareRoundTripsOnceForAllSizes(t *testing.T) {
	l := Latency{Paths: []Path{RoundTrip}, Transports: []Transport{Futex, Shm}, Waitings: []Waiting{Parked},
		Sizes: []int{16, 100}}
	require.Equal(t, []string{
		"round-trip shm parked, 16 bytes", "round-trip futex parked", "round-trip shm parked, 100 bytes",
	}, names(l.plan()))
}

func TestLatencyPlanHasProducersThatOnlySleepIfOnlyParkingIsWanted(t *testing.T) {
	l := Latency{Paths: []Path{OneWay}, Transports: []Transport{Pipe}, Waitings: []Waiting{Parked}, Sizes: []int{16},
		Rates: []float64{5, 0.5}}
	require.Equal(t, []string{"one-way pipe parked, 16 bytes, 5/s", "one-way pipe parked, 16 bytes, 0.5/s"},
		names(l.plan()))
}

func TestLatencyPlansHaveSettingsOfTheirOwn(t *testing.T) {
	l := Latency{
		Paths: paths, Transports: LatencyTransports, Waitings: []Waiting{Parked, Spinning},
		Sizes: []int{16, 100}, Rates: []float64{1000, 2000}, FlushTimeouts: []time.Duration{0, time.Millisecond},
	}
	seen, files := make(map[results.Settings]bool), make(map[string]bool)
	for _, p := range l.plan() {
		require.False(t, seen[p.settings(false)], "%s", p)
		require.False(t, files[p.fileName()], "%s", p)
		seen[p.settings(false)], files[p.fileName()] = true, true
		require.NotContains(t, p.fileName(), "/")
		require.NotContains(t, p.fileName(), " ")
	}
	require.Contains(t, files, "one-way-shm-spinning-100B-2000-per-s-flush-1ms")
}

func TestRoundThatDoesNotReachItsRateSaysSo(t *testing.T) {
	p := latencyPlan{path: OneWay, transport: Pipe, rate: 1000}
	require.Empty(t, p.note(results.Round{results.AchievedPerS: 995}))
	require.Contains(t, p.note(results.Round{results.AchievedPerS: 500.4}), "saturated: 500 records/s of 1000")
	require.Contains(t, p.note(results.Round{results.AchievedPerS: 1000, results.BeyondHistogram: 2}),
		"2 records took more than 1m0s")
}

func TestLatencyRoundNeedsTheSameRecordsOnBothSides(t *testing.T) {
	taken := newLatencies()
	taken.record(time.Millisecond)
	encoded, err := taken.encode()
	require.NoError(t, err)
	producer := result{Records: 10, Span: Span{CPU: 30, Mallocs: 1}}
	consumer := result{Records: 10, Latencies: encoded, Span: Span{Start: time.Second, End: 3 * time.Second, CPU: 70,
		Mallocs: 4}}
	r, _, err := evaluateLatencies(latencyPlan{rate: 5}, producer, consumer)
	require.NoError(t, err)
	require.Equal(t, results.Round{
		results.P50: 1e6, results.P90: 1e6, results.P99: 1e6, results.P999: 1e6, results.P9999: 1e6,
		results.Highest:      1e6,
		results.AchievedPerS: 0.5, results.CostPerRecord: 10, results.AllocsPerRecord: 0.5,
	}, r)

	r, _, err = evaluateLatencies(latencyPlan{}, consumer, producer)
	require.NoError(t, err)
	require.NotContains(t, r, results.AchievedPerS, "a round trip has no rate")

	producer.Records = 11
	_, _, err = evaluateLatencies(latencyPlan{rate: 5}, producer, consumer)
	require.ErrorIs(t, err, ErrContent)

	consumer.Records = 11
	consumer.Latencies, err = newLatencies().encode()
	require.NoError(t, err)
	_, _, err = evaluateLatencies(latencyPlan{rate: 5}, producer, consumer)
	require.ErrorContains(t, err, "no record arrived after the warm-up")
}

func TestHistogramsReadBack(t *testing.T) {
	plan := []latencyPlan{{path: RoundTrip, transport: Futex, waiting: Parked},
		{path: RoundTrip, transport: CacheLine, waiting: Spinning}}
	series := make([]latencySeries, 2)
	for _, d := range []time.Duration{time.Microsecond, time.Millisecond} {
		taken := newLatencies()
		taken.record(d)
		encoded, err := taken.encode()
		require.NoError(t, err)
		require.NoError(t, series[0].add(latencyRound{began: time.Now(), ended: time.Now(), taken: encoded}))
	}
	folder := t.TempDir()
	require.NoError(t, writeHistograms(folder, plan, series))

	log, err := os.ReadFile(filepath.Join(folder, "round-trip-futex-parked.hlog"))
	require.NoError(t, err)
	reader := hdrhistogram.NewHistogramLogReader(bytes.NewReader(log))
	for _, want := range []time.Duration{time.Microsecond, time.Millisecond} {
		h, err := reader.NextIntervalHistogram()
		require.NoError(t, err)
		require.EqualValues(t, 1, h.TotalCount())
		require.InEpsilon(t, want, h.Max(), 0.001)
	}
	text, err := os.ReadFile(filepath.Join(folder, "round-trip-futex-parked.hgrm"))
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), " Value\tPercentile\tTotalCount"))
	require.Contains(t, string(text), "    1000.447     1.000000            2          inf\n")
	require.Contains(t, string(text), "round-trip futex parked, values in microseconds")

	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 2, "what was not measured has no files")
	require.ErrorContains(t, writeHistograms(filepath.Join(folder, "missing"), plan, series), "write histogram")
}

func TestRatesAndWaitingsAreChecked(t *testing.T) {
	rates, err := ParseRates("1000, 0.5,1e7")
	require.NoError(t, err)
	require.Equal(t, []float64{1000, 0.5, 1e7}, rates)
	for _, list := range []string{"", "0", "-1", "NaN", "Inf", "10000001", "fast", "5,5"} {
		_, err := ParseRates(list)
		require.Error(t, err, "%q", list)
	}
	waitings, err := ParseWaiting("both")
	require.NoError(t, err)
	require.Equal(t, []Waiting{Parked, Spinning}, waitings)
	_, err = ParseWaiting("sitting")
	require.ErrorContains(t, err, `"sitting", want parked, spinning or both`)
}
