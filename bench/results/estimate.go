package results

import (
	"math"

	"golang.org/x/perf/benchmath"
)

const (
	// confidence is how sure the interval of an estimate is, if there are rounds
	// enough for that.
	confidence = 0.95
	// significance is how improbable a difference must be by chance to count.
	significance = 0.05
)

// An Estimate is the median of some rounds and an interval around it.
type Estimate struct {
	Rounds            int
	Median, Low, High float64
	// Confidence is the probability that the interval has the median of all rounds
	// that could have been measured: 0.95 or more. It is 0 if there are too few
	// rounds for that, fewer than 6, and the interval is from the lowest to the
	// highest.
	Confidence float64
}

// estimate assumes nothing of how rounds are distributed: the interval is between
// two of them, chosen by their rank.
func estimate(values []float64) Estimate {
	if len(values) == 0 {
		return Estimate{}
	}
	sample := newSample(values)
	s := benchmath.AssumeNothing.Summary(sample, confidence)
	e := Estimate{Rounds: len(values), Median: Median(values), Low: s.Lo, High: s.Hi, Confidence: s.Confidence}
	if math.IsInf(s.Lo, 0) || math.IsInf(s.Hi, 0) {
		e.Low, e.High, e.Confidence = sample.Values[0], sample.Values[len(values)-1], 0
	}
	return e
}

// differs returns the probability that samples which come from the same
// distribution differ as much as a and b do, by the Mann-Whitney U test with both
// sides.
func differs(a, b []float64) (p float64) {
	return benchmath.AssumeNothing.Compare(newSample(a), newSample(b)).P
}

func newSample(values []float64) *benchmath.Sample {
	return benchmath.NewSample(append([]float64(nil), values...), &benchmath.DefaultThresholds)
}

// canDiffer reports whether n and m rounds can differ significantly: whether the
// probability that all of one side are above all of the other is low enough.
func canDiffer(n, m int) bool {
	p := 2.0
	for i := range min(n, m) { // by the number of ways to choose n of n+m
		p *= float64(i+1) / float64(n+m-i)
	}
	return p <= significance
}

// enoughRounds is how many rounds of each side can differ significantly.
const enoughRounds = 4
