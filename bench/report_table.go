package bench

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
)

// WriteTable writes medians and ratios for people to read. Columns of what was
// not measured show a dash.
func (r *Report) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "record\ttransport\tM records/s\tlowest\thighest\tGB/s\tCPU s/GiB\tof ceiling\tof unix\t")
	for _, m := range r.Results {
		lowest, highest := m.extremes()
		fmt.Fprintf(table, "%d B\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", m.RecordSize, m.Transport,
			cell(m.MedianRecordsPerS, formatMillions), cell(lowest, formatMillions), cell(highest, formatMillions),
			cell(m.MedianBytesPerS, func(v float64) string { return fmt.Sprintf("%.2f", v/1e9) }),
			cell(m.MedianCPUSPerGiB, func(v float64) string { return fmt.Sprintf("%.3f", v) }),
			cell(m.RatioToCeiling, formatRatio), cell(m.RatioToUnix, formatRatio))
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

func (m *Measurement) extremes() (lowest, highest float64) {
	var rates []float64
	for _, round := range m.Rounds {
		rates = append(rates, round.RecordsPerS)
	}
	if len(rates) == 0 {
		return 0, 0
	}
	return slices.Min(rates), slices.Max(rates)
}

func formatRatio(v float64) string { return fmt.Sprintf("%.2f x", v) }

func cell(v float64, format func(float64) string) string {
	if v == 0 {
		return "-"
	}
	return format(v)
}
