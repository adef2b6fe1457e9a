package page

import (
	"slices"

	"shuffled/bench/results"
)

const scaleText = "What it takes to attach producers to consumers, and what the daemon and the workers need, as there are more partitions with a gate each."

var overPartitions = overSetting{
	title: "partitions",
	of:    func(s results.Settings) int { return s.Partitions },
	without: func(s results.Settings) results.Settings {
		s.Partitions = 0
		return s
	},
}

func scaleBlocks(f *results.File) []block {
	if len(f.Results) == 0 {
		return nil
	}
	return []block{{
		Panels: overPartitions.panels(f.Results,
			graph{"From creating a partition to its first record", "time",
				[]results.Metric{results.AttachP50, results.AttachP99}},
			graph{"To create a partition, to open a gate", "time", []results.Metric{
				results.CreateP50, results.CreateP99, results.OpenP50, results.OpenP99,
			}},
			graph{"Memory", "bytes", []results.Metric{
				results.SharedMemory, results.DaemonMemory, results.DaemonMemoryAfter, results.WorkerMemory,
			}},
			graph{"Threads", "threads", []results.Metric{results.DaemonThreads, results.WorkerThreads}},
			graph{"Open files of the daemon", "files", []results.Metric{results.DaemonFiles}},
			graph{"Processor time while nothing flows", "% of a core", []results.Metric{results.DaemonIdleCores,
				results.WorkerIdleCores}}),
		Table: newTable("Many partitions, median and lowest – highest round", f.Results, metricColumns(
			results.AttachP50, results.AttachP99, results.CreateP50, results.CreateP99, results.OpenP50,
			results.OpenP99,
			results.SharedMemory, results.DaemonMemory, results.DaemonMemoryAfter, results.WorkerMemory,
			results.DaemonThreads, results.WorkerThreads, results.DaemonFiles, results.DaemonIdleCores,
			results.WorkerIdleCores)),
		Rounds: roundsTable(f.Results),
	}}
}

// scaleTiles has the most partitions.
func scaleTiles(f *results.File) []tile {
	var attached []*results.Measurement
	for _, m := range f.Results {
		if len(m.Values(results.AttachP50)) > 0 {
			attached = append(attached, m)
		}
	}
	if len(attached) == 0 {
		return nil
	}
	many := slices.MaxFunc(attached, func(a, b *results.Measurement) int { return a.Partitions - b.Partitions })
	t := tile{Value: shown(many, results.AttachP50),
		Label: join("To attach, median", words(many.Settings, telling(nil, "partitions")))}
	for _, note := range []struct {
		metric results.Metric
		of     string
	}{{results.DaemonMemory, " of daemon memory"}, {results.DaemonThreads, " daemon threads"},
		{results.DaemonIdleCores, " of a core while idle"}} {
		if text := shown(many, note.metric); text != "" {
			t.Notes = append(t.Notes, text+note.of)
		}
	}
	return []tile{t}
}
