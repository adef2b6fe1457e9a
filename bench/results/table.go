package results

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"shuffled/internal/units"
)

// A column of a table. A cell without text shows a dash.
type column struct {
	title string
	cell  func(m *Measurement) string
}

// WriteTable writes medians and ratios for people to read. Columns that no
// measurement has are left out, cells of what was not measured show a dash.
func (f *File) WriteTable(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	var used []column
	for _, c := range columns {
		if slices.ContainsFunc(f.Results, func(m *Measurement) bool { return c.cell(m) != "" }) {
			used = append(used, c)
			fmt.Fprintf(table, "%s\t", c.title)
		}
	}
	fmt.Fprintln(table)
	for _, m := range f.Results {
		for _, c := range used {
			text := c.cell(m)
			if text == "" {
				text = "-"
			}
			fmt.Fprintf(table, "%s\t", text)
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("write table: %w", err)
	}
	return nil
}

var columns = []column{
	{"record", func(m *Measurement) string { return count(m.RecordSize, " B") }},
	{"transport", func(m *Measurement) string { return m.Transport }},
	{"M records/s", median(RecordsPerS, units.FormatMillions)},
	{"lowest", extreme(RecordsPerS, slices.Min[[]float64], units.FormatMillions)},
	{"highest", extreme(RecordsPerS, slices.Max[[]float64], units.FormatMillions)},
	{"GB/s", median(BytesPerS, func(v float64) string { return fmt.Sprintf("%.2f", v/1e9) })},
	{"CPU s/GiB", median(CPUSPerGiB, func(v float64) string { return fmt.Sprintf("%.3f", v) })},
	{"of ceiling", func(m *Measurement) string { return formatRatio(m.RatioToCeiling) }},
	{"of unix", func(m *Measurement) string { return formatRatio(m.RatioToUnix) }},
}

func median(metric Metric, format func(float64) string) func(*Measurement) string {
	return extreme(metric, Median, format)
}

func extreme(metric Metric, of func([]float64) float64, format func(float64) string) func(*Measurement) string {
	return func(m *Measurement) string {
		values := m.Values(metric)
		if len(values) == 0 {
			return ""
		}
		return format(of(values))
	}
}

func count(n int, unit string) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n, unit)
}

func formatRatio(v float64) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f x", v)
}
