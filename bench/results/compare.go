package results

import (
	"fmt"
	"maps"
	"slices"
)

// A Verdict says how a figure of one file is beside that of another.
type Verdict string

// The verdicts on the second of two files.
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Differs      Verdict = "differs" // in a metric where neither direction is better
	NoDifference Verdict = "no difference"
	// TooFewRounds says that no difference, however great, could be told from
	// chance.
	TooFewRounds Verdict = "too few rounds"
	// OtherMachine says that the figure is no ratio, and machines differ.
	OtherMachine Verdict = "other machine"
)

// A Comparison is how two files of one workload differ.
type Comparison struct {
	// Machines says in what their machines differ.
	Machines []string
	Rows     []ComparedMetric
	// OnlyA and OnlyB are what was measured in one of the files.
	OnlyA, OnlyB []Settings
}

// A ComparedMetric is a metric or ratio that both files have with the same settings. Ratios
// are those of each round to the round of the other transport beside it, so that
// their median may differ a little from the ratio of the medians.
type ComparedMetric struct {
	Settings Settings
	Metric   Metric
	A, B     Estimate
	// P is the probability of such a difference by chance.
	P       float64
	Verdict Verdict
}

// Change returns by how many percent B is above A; ok is false if A is zero.
func (c ComparedMetric) Change() (percent float64, ok bool) {
	if c.A.Median == 0 {
		return 0, false
	}
	return (c.B.Median/c.A.Median - 1) * 100, true
}

// principal are the metrics that are compared unless all are wanted.
var principal = []Metric{
	RecordsPerS, P50, P99, CPUSPerGiB, CostPerRecord, MemoryPerSubpartition, AttachP50, DaemonIdleCores,
}

// Compare compares measurements with the same settings, by ratios and the
// principal metrics: rates, latencies, processor time and memory. It compares all
// metrics if all is true, and of measurements that have no principal ones. The
// files must be of one workload.
func Compare(a, b *File, all bool) (*Comparison, error) {
	if a.Workload != b.Workload {
		return nil, fmt.Errorf("compare results: the first are of %s, the second of %s: take two of one workload",
			a.Workload, b.Workload)
	}
	c := &Comparison{Machines: a.Machine.differences(b.Machine)}
	ofA, ofB := a.bySettings(), b.bySettings()
	for _, m := range a.Results {
		other := ofB[m.Settings]
		if other == nil {
			c.OnlyA = append(c.OnlyA, m.Settings)
			continue
		}
		for _, metric := range metricsOf(m, other, all) {
			c.add(m.Settings, metric, m.Values(metric), other.Values(metric))
		}
		for _, kind := range ratioKinds {
			base := kind.base(m.Settings)
			if baseA, baseB := ofA[base], ofB[base]; base != m.Settings && baseA != nil && baseB != nil {
				c.add(m.Settings, kind.name, kind.values(m, baseA), kind.values(other, baseB))
			}
		}
	}
	for _, m := range b.Results {
		if ofA[m.Settings] == nil {
			c.OnlyB = append(c.OnlyB, m.Settings)
		}
	}
	return c, nil
}

// metricsOf returns the metrics to compare that both measurements have, in the
// order of Metrics and by name if they are not among those.
func metricsOf(a, b *Measurement, all bool) []Metric {
	both := func(m Metric) bool { return has(a.Medians, m) && has(b.Medians, m) }
	if !all && slices.ContainsFunc(principal, both) {
		return slices.DeleteFunc(slices.Clone(principal), func(m Metric) bool { return !both(m) })
	}
	var list, unknown []Metric
	for _, m := range Metrics {
		if both(m) {
			list = append(list, m)
		}
	}
	for m := range maps.Keys(a.Medians) {
		if both(m) && !slices.Contains(list, m) {
			unknown = append(unknown, m)
		}
	}
	slices.Sort(unknown)
	return append(list, unknown...)
}

func has(r Round, m Metric) bool { _, ok := r[m]; return ok }

func (c *Comparison) add(s Settings, metric Metric, a, b []float64) {
	if len(a) == 0 || len(b) == 0 {
		return
	}
	row := ComparedMetric{Settings: s, Metric: metric, A: estimate(a), B: estimate(b), P: differs(a, b)}
	row.Verdict = row.judge(len(c.Machines) > 0)
	c.Rows = append(c.Rows, row)
}

func (c ComparedMetric) judge(machinesDiffer bool) Verdict {
	switch better := c.Metric.Better(); {
	case machinesDiffer && !c.Metric.isRatio():
		return OtherMachine
	case !canDiffer(c.A.Rounds, c.B.Rounds):
		return TooFewRounds
	case !(c.P <= significance) || c.A.Median == c.B.Median:
		return NoDifference
	case better == Neither:
		return Differs
	case (c.B.Median > c.A.Median) == (better == HigherIsBetter):
		return Better
	default:
		return Worse
	}
}

// Count returns how many rows have the verdict.
func (c *Comparison) Count(v Verdict) (n int) {
	for _, row := range c.Rows {
		if row.Verdict == v {
			n++
		}
	}
	return n
}
