package page

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAxesHaveRoundTicksAroundTheValues(t *testing.T) {
	for _, row := range []struct {
		values []float64
		binary bool
		log    bool
		ticks  []float64
		top    float64
	}{
		{values: nil, ticks: []float64{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}, top: 1},
		{values: []float64{0}, ticks: []float64{0, 0.2, 0.4, 0.6000000000000001, 0.8, 1}, top: 1},
		{values: []float64{9, 12}, ticks: []float64{0, 5, 10, 15}, top: 15},
		{values: []float64{0, 100}, ticks: []float64{0, 20, 40, 60, 80, 100}, top: 100},
		{values: []float64{35 << 20, 20 << 20}, binary: true, ticks: []float64{0, 8 << 20, 16 << 20, 24 << 20, 32 << 20,
			40 << 20}, top: 40 << 20},
		{values: []float64{3, 90}, log: true, ticks: []float64{2, 5, 10, 20, 50, 100}, top: 100},
		{values: []float64{0.02, 30}, log: true, ticks: []float64{0.1, 1, 10}, top: 50},
		{values: []float64{1 << 10, 1 << 20}, binary: true, log: true, ticks: []float64{1 << 10, 1 << 12, 1 << 14,
			1 << 16, 1 << 18, 1 << 20}, top: 1 << 20},
	} {
		a := newAxis(row.values, row.binary)
		require.Equal(t, row.log, a.log, "%v", row.values)
		require.InDeltaSlice(t, row.ticks, a.ticks, 1e-9, "%v", row.values)
		require.InDelta(t, 1, a.at(row.top), 1e-9, "%v", row.values)
		for _, v := range row.values {
			require.Equal(t, min(max(a.at(v), 0), 1), a.at(v), "%v", row.values)
		}
	}
}

func TestAxesOfExtremeValuesHaveFewTicksWithinThem(t *testing.T) {
	for _, values := range [][]float64{
		{1e-30, 1e30}, {1e30}, {1e-30}, {math.MaxFloat64}, {math.SmallestNonzeroFloat64, math.MaxFloat64}, {0, 1e-30},
		{-1, 5}, {-5}, {math.Inf(1)}, {math.NaN()},
	} {
		for _, binary := range []bool{false, true} {
			a := newAxis(values, binary)
			require.LessOrEqual(t, len(a.ticks), maxTicks+1, "%v", values)
			require.NotEmpty(t, a.ticks, "%v", values)
			for _, v := range append(values, a.ticks...) {
				require.True(t, a.at(v) >= 0 && a.at(v) <= 1, "%v at %v", v, a.at(v))
			}
		}
	}
}

func TestNinesAxisGivesEachTenthOfTheRestTheSameRoom(t *testing.T) {
	a := ninesAxis(99.999)
	require.Equal(t, []float64{50, 90, 99, 99.9, 99.99, 99.999}, a.ticks)
	require.InDelta(t, 0, a.at(50), 1e-9)
	require.InDelta(t, 1, a.at(99.999), 1e-9)
	require.InDelta(t, a.at(99.9)-a.at(99), a.at(99.99)-a.at(99.9), 1e-6)
	require.Equal(t, []float64{50, 90}, ninesAxis(50).ticks, "an axis has two ends")
}
