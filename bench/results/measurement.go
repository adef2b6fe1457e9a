package results

import "slices"

// Settings are what tells the measurements of a file apart. Those that a
// workload does not have are absent.
type Settings struct {
	Transport  string `json:"transport"`
	RecordSize int    `json:"record_size,omitempty"` // in bytes
	Producers  int    `json:"producers,omitempty"`
	Consumers  int    `json:"consumers,omitempty"`
	// PartitionType, FlushTimeout and Via are settings of the public API: the
	// type of the result partition, how long a record may wait for others, and
	// whether it was emitted or written in place.
	PartitionType string `json:"partition_type,omitempty"`
	FlushTimeout  string `json:"flush_timeout,omitempty"`
	Via           string `json:"via,omitempty"`
	// Distribution is how several consumers share the records.
	Distribution string `json:"distribution,omitempty"`
	// Path is the way of records whose latency is measured: one-way or round-trip.
	Path string `json:"path,omitempty"`
	// Waiting is what a side without work does: it parks or spins. Of records one
	// way it is what the producer does until one is due; the consumer parks.
	Waiting  string  `json:"waiting,omitempty"`
	RatePerS float64 `json:"rate_per_s,omitempty"`
	// Subpartitions is how many each producer has, Partitions how many there are
	// in all.
	Subpartitions int `json:"subpartitions,omitempty"`
	Partitions    int `json:"partitions,omitempty"`
	// Pinned is "on" if each worker could use one core only.
	Pinned string `json:"pinned,omitempty"`
	// Probes is "on" in rounds that were observed and "off" in those that took turns
	// with them.
	Probes string `json:"probes,omitempty"`
}

// A Round is what was measured in one run of some seconds.
type Round map[Metric]float64

// A Measurement is what was measured with some settings.
type Measurement struct {
	Settings
	Rounds []Round `json:"rounds"`

	MedianRecordsPerS float64 `json:"median_records_per_s,omitempty"`
	// Medians has the median of each metric over the rounds that have it.
	Medians Round `json:"medians,omitempty"`

	// Ratios of the median rates, or of the median latencies, to those of other
	// transports with the same records.
	RatioToCeiling   float64 `json:"ratio_to_ceiling,omitempty"`
	RatioToUnix      float64 `json:"ratio_to_unix,omitempty"`
	RatioToUnixP50   float64 `json:"ratio_to_unix_p50,omitempty"`
	RatioToFutex     float64 `json:"ratio_to_futex,omitempty"`
	RatioToCacheLine float64 `json:"ratio_to_cache_line,omitempty"`
	// RatioToEight is what a record costs compared with what it costs where
	// producers have 8 subpartitions.
	RatioToEight float64 `json:"ratio_to_8_subpartitions,omitempty"`

	// Percentiles are those of all rounds together.
	Percentiles []Percentile `json:"percentiles,omitempty"`
	// Saturated is true if so many records a second as planned were not reached:
	// the latencies are those of a queue that grows for as long as a round lasts.
	Saturated bool `json:"saturated,omitempty"`

	// Profile is what the kernel did, if that was observed.
	Profile *Profile `json:"profile,omitempty"`
}

// A Percentile is a latency that so many percent of records did not exceed.
type Percentile struct {
	Percent float64 `json:"percent"`
	Ns      int64   `json:"ns"`
}

func (m *Measurement) summarise() {
	values := make(map[Metric][]float64)
	for _, round := range m.Rounds {
		for metric, v := range round {
			values[metric] = append(values[metric], v)
		}
	}
	m.Medians = Round{}
	for metric, v := range values {
		m.Medians[metric] = Median(v)
	}
	m.MedianRecordsPerS = m.Medians[RecordsPerS]
	m.Saturated = IsSaturated(m.RatePerS, m.Medians[AchievedPerS])
}

// Values returns a metric of the rounds that have it.
func (m *Measurement) Values(metric Metric) (values []float64) {
	for _, round := range m.Rounds {
		if v, ok := round[metric]; ok {
			values = append(values, v)
		}
	}
	return values
}

// Median returns the middle value, or the mean of the two in the middle; 0 of
// nothing.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
