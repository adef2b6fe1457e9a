package results

import "strconv"

// IsSaturated reports whether a rate of records was planned that was not reached,
// both in records a second: less than 99 of 100 records arrived in time.
func IsSaturated(planned, achieved float64) bool { return achieved > 0 && achieved < 0.99*planned }

// percentile is a cell with a percentile of all rounds together, or the median of
// that of each round where it is not known.
func percentile(metric Metric, percent float64) func(*Measurement) string {
	return func(m *Measurement) string {
		for _, p := range m.Percentiles {
			if p.Percent == percent {
				return metric.Format(float64(p.Ns))
			}
		}
		if v, ok := m.Medians[metric]; ok {
			return metric.Format(v)
		}
		return ""
	}
}

// achieved is a cell that says so where a rate was not reached.
func achieved(m *Measurement) string {
	text := formatRate(float64(int64(m.Medians[AchievedPerS])))
	if m.Saturated {
		text += " saturated"
	}
	return text
}

func formatRate(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return strconv.FormatFloat(perSecond, 'f', -1, 64)
}
