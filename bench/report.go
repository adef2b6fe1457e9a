package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// A Report is the outcome of Throughput. What was not measured is absent from
// its JSON.
type Report struct {
	Machine Machine        `json:"machine"`
	Results []*Measurement `json:"results"`
}

// A Measurement is what one transport did with records of one size.
type Measurement struct {
	Transport  Transport `json:"transport"`
	RecordSize int       `json:"record_size"`
	Producers  int       `json:"producers"`
	Consumers  int       `json:"consumers"`
	Rounds     []Round   `json:"rounds"`

	MedianRecordsPerS float64 `json:"median_records_per_s,omitempty"`
	MedianBytesPerS   float64 `json:"median_bytes_per_s,omitempty"`
	MedianCPUSPerGiB  float64 `json:"median_cpu_s_per_gib,omitempty"`

	// Ratios of the median rates, to other transports with the same records.
	RatioToCeiling float64 `json:"ratio_to_ceiling,omitempty"`
	RatioToUnix    float64 `json:"ratio_to_unix,omitempty"`
}

// A Round is one run of some seconds. Bytes are those of records, without what a
// transport adds.
type Round struct {
	RecordsPerS float64 `json:"records_per_s,omitempty"`
	BytesPerS   float64 `json:"bytes_per_s,omitempty"`
	// CPUSPerGiB is the processor time of all workers for each GiB of records.
	CPUSPerGiB float64 `json:"cpu_s_per_gib,omitempty"`
	// OtherCores is how many cores other programs used meanwhile.
	OtherCores float64 `json:"other_cores,omitempty"`
}

// measurement returns the one for a transport and size, which it adds if it is
// the first.
func (r *Report) measurement(t Transport, size, producers, consumers int) *Measurement {
	for _, m := range r.Results {
		if m.Transport == t && m.RecordSize == size {
			return m
		}
	}
	m := &Measurement{Transport: t, RecordSize: size, Producers: producers, Consumers: consumers}
	r.Results = append(r.Results, m)
	return m
}

// summarise works out the medians and ratios from the rounds.
func (r *Report) summarise() {
	for _, m := range r.Results {
		m.MedianRecordsPerS = m.median(func(r Round) float64 { return r.RecordsPerS })
		m.MedianBytesPerS = m.median(func(r Round) float64 { return r.BytesPerS })
		m.MedianCPUSPerGiB = m.median(func(r Round) float64 { return r.CPUSPerGiB })
	}
	for _, m := range r.Results {
		m.RatioToCeiling = ratio(m.MedianRecordsPerS, r.medianOf(Ceiling, m.RecordSize))
		m.RatioToUnix = ratio(m.MedianRecordsPerS, r.medianOf(Unix, m.RecordSize))
	}
}

func (r *Report) medianOf(t Transport, size int) float64 {
	for _, m := range r.Results {
		if m.Transport == t && m.RecordSize == size {
			return m.MedianRecordsPerS
		}
	}
	return 0
}

func (m *Measurement) median(of func(Round) float64) float64 {
	var values []float64
	for _, round := range m.Rounds {
		if v := of(round); v > 0 {
			values = append(values, v)
		}
	}
	return median(values)
}

// median returns the middle value, or the mean of the two in the middle; 0 of
// nothing.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return 0
	}
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// ratio returns v by base, 0 if either was not measured.
func ratio(v, base float64) float64 {
	if base <= 0 {
		return 0
	}
	return v / base
}

// WriteJSON writes the report.
func (r *Report) WriteJSON(w io.Writer) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(r); err != nil {
		return fmt.Errorf("write report: %w", err)
	}
	return nil
}
