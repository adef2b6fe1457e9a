package bench

import (
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"shuffled/bench/results"
)

// highestLatency is the longest latency that a histogram tells from others.
const highestLatency = time.Minute

// latencies are those of one round, or of several. One goroutine uses them.
type latencies struct {
	// histogram has them in nanoseconds, to three significant digits.
	histogram *hdrhistogram.Histogram
	// beyond counts those above highestLatency, which the histogram has as that.
	beyond  int64
	longest time.Duration
}

func newLatencies() *latencies {
	return &latencies{histogram: hdrhistogram.New(1, int64(highestLatency), 3)}
}

// record adds a latency, which is not negative. It allocates nothing.
func (l *latencies) record(d time.Duration) {
	l.longest = max(l.longest, d)
	if d > highestLatency {
		l.beyond++
		d = highestLatency
	}
	_ = l.histogram.RecordValue(int64(d)) // it fails for values out of range alone
}

func (l *latencies) count() int64 { return l.histogram.TotalCount() }

// merge adds those of another round.
func (l *latencies) merge(other *latencies) {
	l.histogram.Merge(other.histogram) // of the same range: it drops none
	l.beyond += other.beyond
	l.longest = max(l.longest, other.longest)
}

// at returns the latency that so many percent did not exceed.
func (l *latencies) at(percent float64) time.Duration {
	if percent == 100 {
		return l.longest
	}
	// A histogram gives the end of the range of values that it does not tell apart.
	return min(time.Duration(l.histogram.ValueAtPercentile(percent)), l.longest)
}

// roundPercentiles are the metrics of a round.
var roundPercentiles = []struct {
	metric  results.Metric
	percent float64
}{
	{results.P50, 50}, {results.P90, 90}, {results.P99, 99}, {results.P999, 99.9}, {results.P9999, 99.99},
	{results.Highest, 100},
}

// addTo enters them into a round.
func (l *latencies) addTo(r results.Round) {
	for _, p := range roundPercentiles {
		r[p.metric] = float64(l.at(p.percent))
	}
	if l.beyond > 0 {
		r[results.BeyondHistogram] = float64(l.beyond)
	}
}

// percentiles returns what a measurement shows of all its rounds.
func (l *latencies) percentiles() (list []results.Percentile) {
	for _, percent := range []float64{50, 75, 90, 99, 99.9, 99.99, 99.999, 100} {
		list = append(list, results.Percentile{Percent: percent, Ns: int64(l.at(percent))})
	}
	return list
}

// encodedLatencies are latencies as a worker reports them.
type encodedLatencies struct {
	Histogram []byte
	Beyond    int64
	Longest   time.Duration
}

func (l *latencies) encode() (*encodedLatencies, error) {
	b, err := l.histogram.EncodeV2()
	if err != nil {
		return nil, fmt.Errorf("encode histogram: %w", err)
	}
	return &encodedLatencies{b, l.beyond, l.longest}, nil
}

func (e *encodedLatencies) decode() (*latencies, error) {
	h, err := hdrhistogram.Decode(e.Histogram)
	if err != nil {
		return nil, fmt.Errorf("decode histogram: %w", err)
	}
	return &latencies{h, e.Beyond, e.Longest}, nil
}
