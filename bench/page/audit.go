package page

import (
	"slices"

	"shuffled/bench/results"
)

const auditText = "What the kernel did for the workers, counted from outside while records flowed. " +
	"A transport that copies moves each byte through the kernel at least once on each side."

var audited = []results.Metric{
	results.SystemCallsPerMiB, results.CopiedPerByte, results.WakeupsPerMiB, results.AllocsPerRecord,
}

// hasAudit says whether the profiler watched a run.
func hasAudit(f *results.File) bool {
	return slices.ContainsFunc(f.Results, wasAudited)
}

func wasAudited(m *results.Measurement) bool {
	return len(m.Values(results.SystemCallsPerMiB)) > 0 || len(m.Values(results.CopiedPerByte)) > 0
}

func auditBlocks(f *results.File) []block {
	var all []*results.Measurement
	for _, m := range f.Results {
		if wasAudited(m) {
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b *results.Measurement) int { return rank(a.Transport) - rank(b.Transport) })
	b := block{Table: newTable("System calls and copies, median and lowest – highest round", all,
		append(metricColumns(audited...), metricColumn(results.RecordsPerS)))}
	if f.Workload != "throughput" { // which lists them already
		b.Rounds = roundsTable(all)
	}
	return []block{b}
}

// auditTiles has the shuffle's system calls for each number of workers.
func auditTiles(f *results.File) (tiles []tile) {
	shm := firstOfEach(ofTransport(f.Results, "shm", results.SystemCallsPerMiB),
		func(s results.Settings) results.Settings {
			return results.Settings{Producers: s.Producers, Consumers: s.Consumers}
		})
	for _, m := range shm {
		t := tile{Value: shown(m, results.SystemCallsPerMiB),
			Label: join("System calls for a MiB", words(m.Settings, telling(shm, "record")))}
		if text := shown(m, results.CopiedPerByte); text != "" {
			t.Notes = append(t.Notes, text+" bytes copied by the kernel for each byte")
		}
		tiles = append(tiles, t)
	}
	return tiles
}
