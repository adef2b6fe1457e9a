package results

import (
	"fmt"
	"io"
	"slices"
	"strconv"
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
	{"subpartitions", func(m *Measurement) string { return count(m.Subpartitions, "") }},
	{"partitions", func(m *Measurement) string { return count(m.Partitions, "") }},
	{"type", func(m *Measurement) string { return m.PartitionType }},
	{"flush", func(m *Measurement) string { return m.FlushTimeout }},
	{"via", func(m *Measurement) string { return m.Via }},
	{"distribution", func(m *Measurement) string { return m.Distribution }},
	{"probes", func(m *Measurement) string { return m.Probes }},
	{"path", func(m *Measurement) string { return m.Path }},
	{"waiting", func(m *Measurement) string { return m.Waiting }},
	{"rate/s", func(m *Measurement) string { return formatRate(m.RatePerS) }},
	{"achieved", achieved},
	{"p50", percentile(P50, 50)},
	{"p90", percentile(P90, 90)},
	{"p99", percentile(P99, 99)},
	{"p99.9", percentile(P999, 99.9)},
	{"p99.99", percentile(P9999, 99.99)},
	{"max", percentile(Highest, 100)},
	{"M records/s", median(RecordsPerS, units.FormatMillions)},
	{"lowest", extreme(RecordsPerS, slices.Min[[]float64], units.FormatMillions)},
	{"highest", extreme(RecordsPerS, slices.Max[[]float64], units.FormatMillions)},
	{"GB/s", median(BytesPerS, func(v float64) string { return fmt.Sprintf("%.2f", v/1e9) })},
	{"CPU s/GiB", median(CPUSPerGiB, func(v float64) string { return fmt.Sprintf("%.3f", v) })},
	{"CPU ns/record", costOfSubpartition},
	{"of 8", func(m *Measurement) string { return formatRatio(m.RatioToEight) }},
	{"allocs/record", median(AllocsPerRecord, formatShort)},
	{"copied B/B", median(CopiedPerByte, formatShort)},
	{"calls/MiB", median(SystemCallsPerMiB, formatShort)},
	{"wake-ups/MiB", median(WakeupsPerMiB, formatShort)},
	{"KiB each", median(MemoryPerSubpartition, formatKiB)},
	{"unused", median(UnusedPerSubpartition, formatKiB)},
	{"peak", median(PeakPerSubpartition, formatKiB)},
	{"KiB/gate", median(MemoryPerGate, formatKiB)},
	{"attach p50", median(AttachP50, AttachP50.Format)},
	{"attach p99", median(AttachP99, AttachP99.Format)},
	{"create p50", median(CreateP50, CreateP50.Format)},
	{"open p50", median(OpenP50, OpenP50.Format)},
	{"shared", median(SharedMemory, formatMemory)},
	{"daemon", median(DaemonMemory, formatMemory)},
	{"fds", median(DaemonFiles, formatWhole)},
	{"threads", median(DaemonThreads, formatWhole)},
	{"idle", median(DaemonIdleCores, formatPercent)},
	{"workers", median(WorkerMemory, formatMemory)},
	{"threads", median(WorkerThreads, formatWhole)},
	{"idle", median(WorkerIdleCores, formatPercent)},
	{"of ceiling", func(m *Measurement) string { return formatRatio(m.RatioToCeiling) }},
	{"of unix", func(m *Measurement) string { return formatRatio(m.RatioToUnix) }},
	{"p50 of unix", func(m *Measurement) string { return formatRatio(m.RatioToUnixP50) }},
	{"of futex", func(m *Measurement) string { return formatRatio(m.RatioToFutex) }},
	{"of cache line", func(m *Measurement) string { return formatRatio(m.RatioToCacheLine) }},
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

// costOfSubpartition shows the cost of a record where it says how that depends on
// the number of subpartitions.
func costOfSubpartition(m *Measurement) string {
	if m.Subpartitions == 0 {
		return ""
	}
	return median(CostPerRecord, func(v float64) string { return fmt.Sprintf("%.1f", v) })(m)
}

func formatWhole(v float64) string { return fmt.Sprintf("%.0f", v) }

func formatPercent(v float64) string { return fmt.Sprintf("%.2f%%", v*100) }

func formatKiB(v float64) string { return fmt.Sprintf("%.1f", v/(1<<10)) }

func formatMemory(v float64) string { return units.FormatBytes(int64(v)) }

func formatShort(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

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
