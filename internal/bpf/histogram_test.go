package bpf

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogramHoldsDurationsByTheirHighestBit(t *testing.T) {
	for _, row := range []struct {
		duration time.Duration
		bucket   int
	}{
		{-5, 0}, {0, 0}, {1, 0}, {2, 1}, {3, 1}, {4, 2}, {1023, 9}, {1024, 10}, {time.Second, 29}, {math.MaxInt64, 62},
	} {
		var h, want Histogram
		h.add(row.duration)
		want.Buckets[row.bucket] = 1
		require.Equal(t, want, h, "%d ns", row.duration)
		low, high := h.MeanBounds()
		require.LessOrEqual(t, low, max(row.duration, 0))
		require.GreaterOrEqual(t, high, row.duration)
	}
}

func TestQuantileInterpolatesInsideOfABucket(t *testing.T) {
	var h Histogram
	h.Buckets[4] = 10  // 16 to 31 ns
	h.Buckets[10] = 30 // 1024 to 2047 ns
	require.EqualValues(t, 40, h.Count())
	for _, row := range []struct {
		q    float64
		want time.Duration
	}{
		{-1, 16}, {0, 16}, {0.125, 23}, {0.25, 31}, {0.625, 1535}, {1, 2047}, {2, 2047},
	} {
		require.Equal(t, row.want, h.Quantile(row.q), "quantile %g", row.q)
	}
	low, high := h.MeanBounds()
	require.Equal(t, time.Duration((16*10+1024*30)/40), low)
	require.Equal(t, time.Duration((31*10+2047*30)/40), high)
}

func TestEmptyHistogramHasNoQuantiles(t *testing.T) {
	var h Histogram
	require.Zero(t, h.Count())
	require.Zero(t, h.Quantile(0.5))
	low, high := h.MeanBounds()
	require.Zero(t, low)
	require.Zero(t, high)
	h.Buckets[3] = 1
	require.Zero(t, h.Quantile(math.NaN()))
}

func TestLongestBucketsDoNotOverflow(t *testing.T) {
	var h Histogram
	h.Buckets[63] = math.MaxUint32
	require.Equal(t, time.Duration(math.MaxInt64), h.Quantile(1))
	_, high := h.MeanBounds()
	require.Equal(t, time.Duration(math.MaxInt64), high)
}
