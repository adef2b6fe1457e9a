package results

// An Overhead is what observing costs by one metric: a comparison of observed
// rounds with others that took turns with them.
type Overhead struct {
	Metric Metric `json:"metric"`
	// With and Without are medians.
	With    float64 `json:"with_probes"`
	Without float64 `json:"without_probes"`
	// CostPercent is how much worse With is.
	CostPercent float64 `json:"cost_percent"`
	// P is the probability of such a difference by chance, 1 if there are too few
	// rounds to tell.
	P float64 `json:"p"`
}

// IsKnown reports whether the difference is not one by chance.
func (o Overhead) IsKnown() bool { return o.P <= significance }

// NewOverheads compares rounds that were observed with others, by those metrics
// that say how fast a workload is.
func NewOverheads(on, off []Round) (all []Overhead) {
	for _, metric := range []Metric{RecordsPerS, CPUSPerGiB, P50} {
		with, without := (&Measurement{Rounds: on}).Values(metric), (&Measurement{Rounds: off}).Values(metric)
		o := Overhead{Metric: metric, With: Median(with), Without: Median(without), P: 1}
		if o.With <= 0 || o.Without <= 0 {
			continue
		}
		if canDiffer(len(with), len(without)) {
			o.P = differs(with, without)
		}
		o.CostPercent = 100 * (o.With/o.Without - 1)
		if metric.Better() == HigherIsBetter {
			o.CostPercent = -o.CostPercent
		}
		all = append(all, o)
	}
	return all
}
