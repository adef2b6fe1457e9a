package results

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEstimateIsTheIntervalOfRanksThatHasTheMedianWith95Percent(t *testing.T) {
	for _, row := range []struct {
		values []float64
		want   Estimate
	}{
		{nil, Estimate{}},
		{[]float64{3}, Estimate{Rounds: 1, Median: 3, Low: 3, High: 3}},
		{[]float64{5, 1, 2, 9, 3}, Estimate{Rounds: 5, Median: 3, Low: 1, High: 9}},
		// The median is outside with 2 of the 64 ways that 6 can lie beside it.
		{[]float64{6, 5, 4, 3, 2, 1}, Estimate{Rounds: 6, Median: 3.5, Low: 1, High: 6, Confidence: 1 - 2.0/64}},
		// Outside of the second and ninth with 2 * (1 + 10) of 1024.
		{[]float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, Estimate{Rounds: 10, Median: 5.5, Low: 2, High: 9,
			Confidence: 1 - 22.0/1024}},
	} {
		got := estimate(row.values)
		require.InDelta(t, row.want.Confidence, got.Confidence, 1e-9, "%v", row.values)
		got.Confidence = row.want.Confidence
		require.Equal(t, row.want, got)
	}
}

func TestEstimateLeavesItsValuesInOrder(t *testing.T) {
	values := []float64{3, 1, 2}
	estimate(values)
	differs(values, values)
	require.Equal(t, []float64{3, 1, 2}, values)
}

func TestProbabilityOfADifferenceIsThatOfTheExactUTest(t *testing.T) {
	for _, row := range []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70}, // 70 ways to choose 4 of 8
		{[]float64{5, 6, 7, 8}, []float64{1, 2, 3, 4}, 2.0 / 70},
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 2.0 / 20},
		{[]float64{1, 4}, []float64{2, 3}, 1},
		{[]float64{7, 7, 7, 7}, []float64{7, 7, 7, 7}, 1},
	} {
		require.InDelta(t, row.want, differs(row.a, row.b), 1e-9, "%v and %v", row.a, row.b)
	}
}

func TestFewRoundsCannotDiffer(t *testing.T) {
	for _, row := range []struct {
		n, m int
		want bool
	}{{1, 1, false}, {3, 3, false}, {3, 4, false}, {4, 3, false}, {4, 4, true}, {3, 5, true}, {2, 8, true},
		{2, 7, false}, {1, 38, false}, {1, 39, true}, {50, 50, true}} {
		require.Equal(t, row.want, canDiffer(row.n, row.m), "%d and %d", row.n, row.m)
	}
	require.True(t, canDiffer(enoughRounds, enoughRounds))
	require.False(t, canDiffer(enoughRounds-1, enoughRounds-1))
}
