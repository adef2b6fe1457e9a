package page

import (
	"maps"
	"slices"

	"shuffled/bench/results"
)

// A figure is how a metric is shown.
type figure struct {
	// title heads a column and has the unit, unless the cells do.
	title string
	// axis is the title of an axis and has the unit, unless the ticks do.
	axis string
	cell func(float64) string
	tick func(float64) string
	// binary says that round numbers are powers of two.
	binary bool
}

// figures are those of the metrics, in the order of table columns.
var figures = []struct {
	metric results.Metric
	figure figure
}{
	{results.RecordsPerS, figure{title: "M records/s", axis: "records/s", cell: scaled(1e6), tick: short}},
	{results.BytesPerS, figure{title: "GB/s", axis: "GB/s", cell: scaled(1e9),
		tick: func(v float64) string { return plain(v / 1e9) }}},
	{results.CPUSPerGiB, figure{title: "CPU s/GiB", axis: "CPU s/GiB", cell: significant, tick: plain}},
	{results.OtherCores, figure{title: "cores of others", axis: "cores", cell: significant, tick: plain}},

	{results.P50, latency("latency 50\u00a0%")},
	{results.P90, latency("latency 90\u00a0%")},
	{results.P99, latency("latency 99\u00a0%")},
	{results.P999, latency("latency 99.9\u00a0%")},
	{results.P9999, latency("latency 99.99\u00a0%")},
	{results.Highest, latency("latency, highest")},

	{results.BeyondHistogram, count("latencies above 1 m")},
	{results.AchievedPerS, figure{title: "records received/s", axis: "records/s", cell: significant, tick: short}},

	{results.CostPerRecord, figure{title: "CPU ns/record", axis: "CPU ns per record", cell: significant, tick: plain}},
	{results.AllocsPerRecord, count("allocations/record")},
	{results.WakeupsPerMiB, count("wake-ups/MiB")},
	{results.SystemCallsPerMiB, count("system calls/MiB")},
	{results.CopiedPerByte, count("copied bytes/byte")},

	{results.UnusedPerSubpartition, memory("memory/subpartition, unused")},
	{results.MemoryPerSubpartition, memory("memory/subpartition, after use")},
	{results.PeakPerSubpartition, memory("memory/subpartition, in use")},
	{results.MemoryPerGate, memory("memory/gate")},

	{results.AttachP50, latency("attach, 50 %")},
	{results.AttachP99, latency("attach, 99 %")},
	{results.CreateP50, latency("create, 50 %")},
	{results.CreateP99, latency("create, 99 %")},
	{results.OpenP50, latency("open, 50 %")},
	{results.OpenP99, latency("open, 99 %")},
	{results.SharedMemory, memory("shared memory")},
	{results.DaemonMemory, memory("daemon memory")},
	{results.DaemonMemoryAfter, memory("daemon memory, after")},
	{results.WorkerMemory, memory("worker memory")},
	{results.DaemonThreads, count("daemon threads")},
	{results.WorkerThreads, count("worker threads")},
	{results.DaemonFiles, count("daemon files")},
	{results.DaemonIdleCores, ofCore("daemon idle, of a core")},
	{results.WorkerIdleCores, ofCore("worker idle, of a core")},
}

func scaled(by float64) func(float64) string {
	return func(v float64) string { return significant(v / by) }
}

func latency(title string) figure {
	return figure{
		title: title, axis: "time",
		cell: func(v float64) string { return duration(v, significant) },
		tick: func(v float64) string { return duration(v, plain) },
	}
}

func memory(title string) figure {
	return figure{
		title: title, axis: "bytes", binary: true,
		cell: func(v float64) string { return bytes(v, significant) },
		tick: func(v float64) string { return bytes(v, plain) },
	}
}

func count(title string) figure {
	return figure{title: title, axis: title, cell: whole, tick: short}
}

func ofCore(title string) figure {
	return figure{
		title: title, axis: "% of a core",
		cell: func(v float64) string { return significant(v*100) + " %" },
		tick: func(v float64) string { return plain(v * 100) },
	}
}

// figureOf returns how a metric is shown: one that is not known by its name.
func figureOf(m results.Metric) figure {
	for _, f := range figures {
		if f.metric == m {
			return f.figure
		}
	}
	if m.IsTime() {
		return latency(string(m))
	}
	return count(string(m))
}

// measured returns the metrics that some measurements have, those that are not
// known last.
func measured(all []*results.Measurement) (metrics []results.Metric) {
	has := make(map[results.Metric]bool)
	for _, m := range all {
		for _, round := range m.Rounds {
			for metric := range round {
				has[metric] = true
			}
		}
	}
	for _, f := range figures {
		if has[f.metric] {
			metrics = append(metrics, f.metric)
			delete(has, f.metric)
		}
	}
	return append(metrics, slices.Sorted(maps.Keys(has))...)
}
