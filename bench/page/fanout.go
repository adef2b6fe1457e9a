package page

import (
	"slices"

	"shuffled/bench/results"
)

const fanoutText = "What a record costs, and how much shared memory a subpartition holds, as a producer has more subpartitions."

var overSubpartitions = overSetting{
	title: "subpartitions",
	of:    func(s results.Settings) int { return s.Subpartitions },
	without: func(s results.Settings) results.Settings {
		s.Subpartitions, s.Consumers = 0, 0 // a few of them have fewer processes
		return s
	},
}

func fanoutBlocks(f *results.File) []block {
	if len(f.Results) == 0 {
		return nil
	}
	columns := metricColumns(results.CostPerRecord, results.RecordsPerS, results.BytesPerS, results.WakeupsPerMiB,
		results.UnusedPerSubpartition, results.MemoryPerSubpartition, results.PeakPerSubpartition,
		results.MemoryPerGate)
	return []block{{
		Panels: overSubpartitions.panels(f.Results,
			graph{"Processor time of a record", "", []results.Metric{results.CostPerRecord}},
			graph{"Records a second", "", []results.Metric{results.RecordsPerS}},
			graph{"Shared memory of a subpartition", "", []results.Metric{
				results.UnusedPerSubpartition, results.MemoryPerSubpartition, results.PeakPerSubpartition,
			}}),
		Table: newTable("Fan-out, median and lowest – highest round", f.Results,
			append(columns, ratioColumns(results.RatioToEight, results.RatioToUnix)...)),
		Rounds: roundsTable(f.Results),
	}}
}

// fanoutTiles have the most subpartitions.
func fanoutTiles(f *results.File) (tiles []tile) {
	shm := ofTransport(f.Results, "shm", results.CostPerRecord)
	var of []results.Settings
	for _, m := range shm {
		of = append(of, overSubpartitions.without(m.Settings))
	}
	apart := varying(of)
	named := only(func(s setting) bool { return s.title == overSubpartitions.title || has(apart, s) })
	for _, g := range groupBy(shm, overSubpartitions.without) {
		many := slices.MaxFunc(g.all, func(a, b *results.Measurement) int { return a.Subpartitions - b.Subpartitions })
		t := tile{
			Value: shown(many, results.CostPerRecord) + " ns",
			Label: join("Processor time of a record", words(many.Settings, named)),
		}
		if ratio, ok := many.Value(results.RatioToEight); ok {
			t.Notes = append(t.Notes, times(ratio)+" that with 8")
		}
		if text := shown(many, results.MemoryPerSubpartition); text != "" {
			t.Notes = append(t.Notes, text+" of shared memory each")
		}
		tiles = append(tiles, t)
	}
	return tiles
}
