package results

import "slices"

// The ratios of a measurement to that of another transport with the same
// records. They are figures of measurements, not of rounds.
const (
	RatioToCeiling   Metric = "ratio_to_ceiling"
	RatioToUnix      Metric = "ratio_to_unix"
	RatioToUnixP50   Metric = "ratio_to_unix_p50"
	RatioToFutex     Metric = "ratio_to_futex"
	RatioToCacheLine Metric = "ratio_to_cache_line"
	RatioToEight     Metric = "ratio_to_8_subpartitions"
)

// A ratioKind says which metric it compares with that of which transport, and
// where a measurement keeps it.
type ratioKind struct {
	name      Metric
	transport string
	of        Metric
	in        func(*Measurement) *float64
}

var ratioKinds = []ratioKind{
	{RatioToCeiling, "ceiling", RecordsPerS, func(m *Measurement) *float64 { return &m.RatioToCeiling }},
	{RatioToUnix, "unix", RecordsPerS, func(m *Measurement) *float64 { return &m.RatioToUnix }},
	{RatioToUnixP50, "unix", P50, func(m *Measurement) *float64 { return &m.RatioToUnixP50 }},
	{RatioToFutex, "futex", P50, func(m *Measurement) *float64 { return &m.RatioToFutex }},
	{RatioToCacheLine, "cache-line", P50, func(m *Measurement) *float64 { return &m.RatioToCacheLine }},
	{RatioToEight, "", CostPerRecord, func(m *Measurement) *float64 { return &m.RatioToEight }},
}

// Ratios are all of them.
func Ratios() (list []Metric) {
	for _, kind := range ratioKinds {
		list = append(list, kind.name)
	}
	return list
}

func (m Metric) isRatio() bool { return slices.Contains(Ratios(), m) }

// Value returns the median of a metric, or a ratio; ok is false if it was not
// measured.
func (m *Measurement) Value(metric Metric) (v float64, ok bool) {
	for _, kind := range ratioKinds {
		if kind.name == metric {
			v = *kind.in(m)
			return v, v != 0
		}
	}
	v, ok = m.Medians[metric]
	return v, ok
}

// base returns the settings of the measurement that one with settings s is
// compared with.
func (k ratioKind) base(s Settings) Settings {
	if k.name == RatioToEight {
		s.Subpartitions, s.Consumers = 8, min(s.Consumers, 8)
		return s
	}
	s.Transport = k.transport
	// What only the public API can be told does not tell baselines apart.
	s.PartitionType, s.FlushTimeout, s.Via = "", "", ""
	if k.transport == "futex" || k.transport == "cache-line" {
		s.RecordSize = 0 // a bare round trip has no record
	}
	return s
}

// values returns the ratio of each round of m to the round of base that took its
// turn beside it, of those that were measured.
func (k ratioKind) values(m, base *Measurement) (values []float64) {
	for i := range min(len(m.Rounds), len(base.Rounds)) {
		if r := ratio(m.Rounds[i][k.of], base.Rounds[i][k.of]); r > 0 {
			values = append(values, r)
		}
	}
	return values
}

// ratio returns v by base, 0 if either was not measured.
func ratio(v, base float64) float64 {
	if base <= 0 {
		return 0
	}
	return v / base
}
