package results

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// WriteGoBenchmark writes the rounds in the Go benchmark format, a line each, for
// benchstat and other tools that read it. The name has the settings; the figures
// are the time of a record, in ns/record, and all metrics with their Units.
func (f *File) WriteGoBenchmark(w io.Writer) error {
	out := &strings.Builder{}
	if _, platform, ok := strings.Cut(f.Machine.Go, " "); ok {
		system, architecture, _ := strings.Cut(platform, "/")
		fmt.Fprintf(out, "goos: %s\ngoarch: %s\n", system, architecture)
	}
	fmt.Fprintln(out, "pkg: shuffled/bench")
	if f.Machine.CPU != "" {
		fmt.Fprintf(out, "cpu: %s\n", f.Machine.CPU)
	}
	for _, metric := range f.measured() {
		switch metric.Better() {
		case HigherIsBetter:
			fmt.Fprintf(out, "Unit %s better=higher\n", metric.Unit())
		case LowerIsBetter:
			fmt.Fprintf(out, "Unit %s better=lower\n", metric.Unit())
		}
	}
	for _, m := range f.Results {
		name := goBenchmarkName(f.Workload, m.Settings)
		for _, round := range m.Rounds {
			if len(round) > 0 {
				fmt.Fprintf(out, "%s 1%s\n", name, goBenchmarkFigures(round))
			}
		}
	}
	if _, err := io.WriteString(w, out.String()); err != nil {
		return fmt.Errorf("write Go benchmark format: %w", err)
	}
	return nil
}

// timePerRecord is worked out from the rate, as tools want a time first.
const timePerRecord Metric = "ns_per_record"

// measured returns the metrics that some round has, by name, and timePerRecord.
func (f *File) measured() []Metric {
	all := map[Metric]bool{}
	for _, m := range f.Results {
		for metric := range m.Medians {
			all[metric] = true
		}
	}
	if all[RecordsPerS] {
		all[timePerRecord] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func goBenchmarkName(workload string, s Settings) string {
	name := "Benchmark" + strings.ToUpper(workload[:min(1, len(workload))]) + workload[min(1, len(workload)):]
	for _, setting := range s.List() {
		name += "/" + strings.ReplaceAll(setting.String(), "/", "_")
	}
	return strings.Join(strings.FieldsFunc(name, unicode.IsSpace), "_")
}

func goBenchmarkFigures(round Round) string {
	out := &strings.Builder{}
	write := func(v float64, metric Metric) {
		fmt.Fprintf(out, " %s %s", strconv.FormatFloat(v, 'g', -1, 64), metric.Unit())
	}
	if rate := round[RecordsPerS]; rate > 0 {
		write(1e9/rate, timePerRecord)
	}
	for _, metric := range slices.Sorted(maps.Keys(round)) {
		write(round[metric], metric)
	}
	return out.String()
}
