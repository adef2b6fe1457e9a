package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

func TestLatenciesHaveThePercentilesOfWhatWasRecorded(t *testing.T) {
	l := newLatencies()
	for us := range 1000 {
		l.record(time.Duration(us+1) * time.Microsecond)
	}
	require.EqualValues(t, 1000, l.count())
	for percent, want := range map[float64]time.Duration{
		50: 500 * time.Microsecond, 90: 900 * time.Microsecond, 99: 990 * time.Microsecond,
		99.9:  999 * time.Microsecond,
		99.99: time.Millisecond, 100: time.Millisecond,
	} {
		require.InEpsilon(t, want, l.at(percent), 0.001, "%v", percent)
	}
	r := results.Round{}
	l.addTo(r)
	require.InEpsilon(t, 500e3, r[results.P50], 0.001)
	require.EqualValues(t, 1e6, r[results.Highest])
	require.NotContains(t, r, results.BeyondHistogram)
	list := l.percentiles()
	require.Len(t, list, 8)
	require.Equal(t, results.Percentile{Percent: 100, Ns: 1e6}, list[7])
}

func TestLatenciesBeyondTheHistogramAreCountedAndTheLongestIsExact(t *testing.T) {
	l := newLatencies()
	l.record(time.Second)
	l.record(time.Hour)
	r := results.Round{}
	l.addTo(r)
	require.EqualValues(t, 2, l.count())
	require.EqualValues(t, 1, r[results.BeyondHistogram])
	require.EqualValues(t, time.Hour, r[results.Highest])
	require.InEpsilon(t, float64(time.Minute), r[results.P99], 0.001)
}

func TestLatenciesOfRoundsMergeAsTheyTravel(t *testing.T) {
	all := newLatencies()
	for _, d := range []time.Duration{0, time.Microsecond, 3 * time.Second, 2 * time.Minute} {
		round := newLatencies()
		round.record(d)
		encoded, err := round.encode()
		require.NoError(t, err)
		decoded, err := encoded.decode()
		require.NoError(t, err)
		all.merge(decoded)
	}
	require.EqualValues(t, 4, all.count())
	require.EqualValues(t, 1, all.beyond)
	require.Equal(t, 2*time.Minute, all.longest)
	require.InEpsilon(t, time.Microsecond, all.at(50), 0.001)
	require.InEpsilon(t, 3*time.Second, all.at(75), 0.001)

	_, err := (&encodedLatencies{Histogram: []byte("no histogram")}).decode()
	require.Error(t, err)
}

func TestLatenciesAreRecordedWithoutAllocating(t *testing.T) {
	l := newLatencies()
	require.Zero(t, testing.AllocsPerRun(100, func() { l.record(time.Millisecond) }))
}

func TestClockIsTheMonotonicClockOfTheMachine(t *testing.T) {
	before, between, after := monotonicNow(), now(), monotonicNow()
	require.LessOrEqual(t, before, between)
	require.LessOrEqual(t, between, after)
}
