package page

import "shuffled/bench/results"

// A group is of measurements with something in common.
type group struct {
	of  results.Settings
	all []*results.Measurement
}

// groupBy splits measurements by what they have in common, in the order in which
// they come.
func groupBy(all []*results.Measurement, common func(results.Settings) results.Settings) (groups []group) {
	at := make(map[results.Settings]int)
	for _, m := range all {
		of := common(m.Settings)
		i, ok := at[of]
		if !ok {
			i = len(groups)
			at[of] = i
			groups = append(groups, group{of: of})
		}
		groups[i].all = append(groups[i].all, m)
	}
	return groups
}

// ofTransport returns the measurements of a transport that have a metric.
func ofTransport(all []*results.Measurement, transport string, metric results.Metric) (of []*results.Measurement) {
	for _, m := range all {
		if m.Transport == transport && len(m.Values(metric)) > 0 {
			of = append(of, m)
		}
	}
	return of
}

// shown is the median of a metric as it is shown, empty if it was not measured.
func shown(m *results.Measurement, metric results.Metric) string {
	return metricColumn(metric).cell(m).Text
}

// firstOfEach returns the first of each group of measurements.
func firstOfEach(all []*results.Measurement,
	common func(results.Settings) results.Settings) (first []*results.Measurement) {
	for _, g := range groupBy(all, common) {
		first = append(first, g.all[0])
	}
	return first
}
