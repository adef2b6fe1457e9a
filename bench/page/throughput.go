package page

import (
	"fmt"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

const throughputText = "Records that get from producer processes to consumer processes, a connection or ring between each two. " +
	"The transports took turns, round by round; the figures are medians of the rounds, with the lowest and highest."

var overRecordSize = overSetting{
	title: "record size, bytes",
	of:    func(s results.Settings) int { return s.RecordSize },
	without: func(s results.Settings) results.Settings {
		s.RecordSize = 0
		return s
	},
}

// throughputBlocks has a block for each number of workers.
func throughputBlocks(f *results.File) (blocks []block) {
	groups := groupBy(f.Results, func(s results.Settings) results.Settings {
		return results.Settings{Producers: s.Producers, Consumers: s.Consumers, Distribution: s.Distribution}
	})
	for _, g := range groups {
		b := block{
			Panels: overRecordSize.panels(g.all,
				graph{"Records a second", "", []results.Metric{results.RecordsPerS}},
				graph{"Bytes of records a second", "", []results.Metric{results.BytesPerS}},
				graph{"Processor time", "", []results.Metric{results.CPUSPerGiB}}),
			Table: newTable("Throughput, median and lowest – highest round", g.all,
				append(metricColumns(results.RecordsPerS, results.BytesPerS, results.CPUSPerGiB),
					ratioColumns(results.RatioToCeiling, results.RatioToUnix)...)),
			Rounds: roundsTable(g.all),
		}
		if s := g.of; s.Producers > 0 || s.Consumers > 0 {
			b.Heading = fmt.Sprintf("%s, %s", units.Plural(s.Producers, "producer"),
				units.Plural(s.Consumers, "consumer"))
		}
		if g.of.Distribution != "" {
			b.Heading += ", " + g.of.Distribution
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// throughputTiles has the shuffle's rate for each size of records and number of
// workers, with the first of the ways to use the public API.
func throughputTiles(f *results.File) (tiles []tile) {
	shm := firstOfEach(ofTransport(f.Results, "shm", results.RecordsPerS), func(s results.Settings) results.Settings {
		return results.Settings{RecordSize: s.RecordSize, Producers: s.Producers, Consumers: s.Consumers}
	})
	for _, m := range shm {
		t := tile{
			Value: shown(m, results.RecordsPerS) + " M/s",
			Label: join("Throughput", words(m.Settings, telling(shm, "record"))),
		}
		if m.RatioToUnix > 0 {
			t.Notes = append(t.Notes, times(m.RatioToUnix)+" a Unix socket")
		}
		if m.RatioToCeiling > 0 {
			t.Notes = append(t.Notes, times(m.RatioToCeiling)+" the plain ring")
		}
		tiles = append(tiles, t)
	}
	return tiles
}
