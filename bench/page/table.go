package page

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"shuffled/bench/results"
)

// A table has a head and rows of as many cells. A cell of what was not measured
// is empty.
type table struct {
	Caption string
	Head    []string
	Rows    [][]cell
	// Names is how many columns at the left say what a row is, Words how many have
	// text that is no number.
	Names, Words int
}

type cell struct {
	Text string
	// Range is the lowest and highest round.
	Range string
}

// A column of a table of measurements.
type column struct {
	title string
	cell  func(*results.Measurement) cell
}

// metricColumn shows the median of the rounds.
func metricColumn(metric results.Metric) column {
	f := figureOf(metric)
	return column{f.title, func(m *results.Measurement) cell {
		values := m.Values(metric)
		if len(values) == 0 {
			return cell{}
		}
		return cell{f.cell(results.Median(values)), spread(values, f.cell)}
	}}
}

// spread is the lowest and highest of several values.
func spread(values []float64, text func(float64) string) string {
	if len(values) < 2 {
		return ""
	}
	low, high := text(slices.Min(values)), text(slices.Max(values))
	if low == high {
		return ""
	}
	return span(low, high)
}

// span joins two figures: "4.1 – 5 µs", with the unit once if it is the same.
func span(low, high string) string {
	number, unit, _ := strings.Cut(low, " ")
	if unit != "" && strings.HasSuffix(high, " "+unit) {
		low = number
	}
	return low + " – " + high
}

// ratioColumns show ratios to other measurements of the same file.
func ratioColumns(ratios ...results.Metric) (columns []column) {
	for _, ratio := range ratios {
		title := strings.ReplaceAll(string(ratio), "_", " ")
		columns = append(columns, column{title, func(m *results.Measurement) cell {
			v, ok := m.Value(ratio)
			if !ok {
				return cell{}
			}
			return cell{Text: times(v)}
		}})
	}
	return columns
}

// newTable returns a table with a row for each measurement, without the columns
// that are empty.
func newTable(caption string, all []*results.Measurement, columns []column) *table {
	named := telling(all, "transport")
	t := &table{Caption: withCommon(caption, all)}
	for _, setting := range named {
		t.Head = append(t.Head, setting.title)
	}
	t.Names, t.Words = len(t.Head), len(t.Head)
	var filled []column
	for _, c := range columns {
		if slices.ContainsFunc(all, func(m *results.Measurement) bool { return c.cell(m) != cell{} }) {
			filled = append(filled, c)
			t.Head = append(t.Head, c.title)
		}
	}
	for _, m := range all {
		row := names(m, named)
		for _, c := range filled {
			row = append(row, c.cell(m))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// withCommon adds to a caption what measurements have in common, or those of the
// transports that have it.
func withCommon(caption string, all []*results.Measurement) string {
	apart := telling(all, "transport")
	var holders []string
	common := make(map[string][]string)
	for _, s := range only(func(s setting) bool { return !has(apart, s) }) {
		holder, text := commonOf(s, all)
		if text == "" {
			continue
		}
		if common[holder] == nil {
			holders = append(holders, holder)
		}
		common[holder] = append(common[holder], qualified(s.title, text))
	}
	for _, holder := range holders {
		caption += ". " + holder + ": " + strings.Join(common[holder], ", ")
	}
	return caption
}

// commonOf returns a setting that does not vary, and which transports have it.
func commonOf(s setting, all []*results.Measurement) (holder, text string) {
	var having []string
	for _, m := range all {
		if of := s.text(m.Settings); of != "" {
			text, having = of, append(having, m.Transport)
		}
	}
	if len(having) == len(all) {
		return "All", text
	}
	slices.SortStableFunc(having, func(a, b string) int { return rank(a) - rank(b) })
	return strings.Join(slices.Compact(having), ", "), text
}

// names are the cells that say what a measurement is of.
func names(m *results.Measurement, by []setting) (row []cell) {
	for _, setting := range by {
		row = append(row, cell{Text: setting.text(m.Settings)})
	}
	return row
}

// metricColumns are those of some metrics.
func metricColumns(metrics ...results.Metric) (columns []column) {
	for _, metric := range metrics {
		columns = append(columns, metricColumn(metric))
	}
	return columns
}

// roundsTable has every round of some measurements with all that was measured.
func roundsTable(all []*results.Measurement) *table {
	named := telling(all, "transport")
	t := &table{Caption: "All rounds"}
	for _, setting := range named {
		t.Head = append(t.Head, setting.title)
	}
	t.Head = append(t.Head, "round")
	t.Names, t.Words = len(t.Head), len(t.Head)
	metrics := measured(all)
	for _, metric := range metrics {
		t.Head = append(t.Head, figureOf(metric).title)
	}
	for _, m := range all {
		for i, round := range m.Rounds {
			row := append(names(m, named), cell{Text: strconv.Itoa(i + 1)})
			for _, metric := range metrics {
				if v, ok := round[metric]; ok {
					row = append(row, cell{Text: figureOf(metric).cell(v)})
				} else {
					row = append(row, cell{})
				}
			}
			t.Rows = append(t.Rows, row)
		}
	}
	if len(t.Rows) == 0 {
		return nil
	}
	return t
}

// Summary is what a closed list of rounds shows.
func (t *table) Summary() string { return fmt.Sprintf("%s (%d)", t.Caption, len(t.Rows)) }
