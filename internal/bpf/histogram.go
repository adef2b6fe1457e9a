package bpf

import (
	"math"
	"math/bits"
	"time"
)

// HistogramBuckets is the number of buckets of a histogram.
const HistogramBuckets = 64

// A Histogram counts durations by the power of two below them: bucket i holds
// those from 2^i to 2^(i+1)-1 nanoseconds, bucket 0 those of 0 and 1.
type Histogram struct {
	Buckets [HistogramBuckets]uint64
}

// Count returns how many durations were counted.
func (h *Histogram) Count() uint64 {
	var n uint64
	for _, count := range h.Buckets {
		n += count
	}
	return n
}

// Quantile returns the duration that the share q of all does not exceed, for q
// from 0 to 1: exact to the bucket, and inside of it as if its durations were
// spread evenly. It is 0 for an empty histogram.
func (h *Histogram) Quantile(q float64) time.Duration {
	total := h.Count()
	if total == 0 || math.IsNaN(q) {
		return 0
	}
	rank := min(max(q, 0), 1) * float64(total)
	var below float64
	last := 0
	for i, count := range h.Buckets {
		if count == 0 {
			continue
		}
		last = i
		if below+float64(count) >= rank {
			low, high := bucketBounds(i)
			return duration(low + (high-low)*(rank-below)/float64(count))
		}
		below += float64(count)
	}
	_, high := bucketBounds(last)
	return duration(high)
}

// MeanBounds returns the least and the greatest mean that the buckets allow, 0
// and 0 for an empty histogram.
func (h *Histogram) MeanBounds() (low, high time.Duration) {
	total := float64(h.Count())
	if total == 0 {
		return 0, 0
	}
	var lowSum, highSum float64
	for i, count := range h.Buckets {
		least, most := bucketBounds(i)
		lowSum += least * float64(count)
		highSum += most * float64(count)
	}
	return duration(lowSum / total), duration(highSum / total)
}

// add counts d.
func (h *Histogram) add(d time.Duration) {
	h.Buckets[max(bits.Len64(uint64(max(d, 0))), 1)-1]++
}

// bucketBounds returns the least and the greatest duration of a bucket in
// nanoseconds.
func bucketBounds(i int) (low, high float64) {
	if i == 0 {
		return 0, 1
	}
	return math.Ldexp(1, i), math.Ldexp(1, i+1) - 1
}

// duration returns a number of nanoseconds, at most the longest duration.
func duration(ns float64) time.Duration {
	if ns >= math.MaxInt64 {
		return math.MaxInt64
	}
	return time.Duration(ns)
}

func (h *Histogram) sub(earlier *Histogram) *Histogram {
	if h == nil || earlier == nil {
		return nil
	}
	var d Histogram
	for i := range h.Buckets {
		d.Buckets[i] = rise(h.Buckets[i], earlier.Buckets[i])
	}
	return &d
}
