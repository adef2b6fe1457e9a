package page

import (
	"cmp"
	"slices"

	"shuffled/bench/results"
)

// A tile is one figure of the summary.
type tile struct {
	Value, Label string
	Notes        []string
}

// A summary is what matters most of the files of a machine.
type summary struct {
	Heading string // names the machine if there are several
	Tiles   []tile
	// Losses are where another transport was better than the shuffle.
	Losses *table
	// Others are the transports that it was compared with.
	Others []string
}

func summarise(sources []Source, heading string) summary {
	s := summary{Heading: heading}
	for _, k := range kinds {
		for _, source := range sources {
			if k.applies(source.File) {
				s.Tiles = append(s.Tiles, k.tiles(source.File)...)
			}
		}
	}
	sources = slices.Clone(sources)
	slices.SortStableFunc(sources,
		func(a, b Source) int { return place(kindsOf(a.File)[0]) - place(kindsOf(b.File)[0]) })
	t := &table{
		Caption: "Median and lowest – highest round",
		Head:    []string{"of", "figure", "ahead of shm", "the best of them", "shm", "shm by that"}, Names: 3, Words: 3,
	}
	for _, source := range sources {
		rows, others := losses(source.File)
		t.Rows = append(t.Rows, rows...)
		for _, other := range others {
			if !slices.Contains(s.Others, other) {
				s.Others = append(s.Others, other)
			}
		}
	}
	if len(t.Rows) > 0 {
		s.Losses = t
	}
	slices.SortStableFunc(s.Others, func(a, b string) int { return rank(a) - rank(b) })
	return s
}

// limits are transports that show what is possible; no program uses them.
var limits = []string{"ceiling", "futex", "cache-line"}

// compared are the metrics in which the shuffle can lose. Others follow from them,
// or say how it comes.
var compared = []results.Metric{
	results.RecordsPerS, results.CPUSPerGiB, results.P50, results.P99, results.P999,
	results.SystemCallsPerMiB, results.CopiedPerByte,
}

// losses returns a row for each figure in which other transports with the same
// settings have the better median, and the transports that were compared.
func losses(f *results.File) (rows [][]cell, others []string) {
	named := telling(f.Results, "record")
	for _, shm := range f.Results {
		if shm.Transport != "shm" {
			continue
		}
		for _, metric := range compared {
			rivals := rivals(f, shm, metric)
			others = append(others, transports(rivals)...)
			ahead := slices.DeleteFunc(rivals, func(m *results.Measurement) bool { return better(metric, shm, m) >= 0 })
			if len(ahead) == 0 {
				continue
			}
			slices.SortStableFunc(ahead, func(a, b *results.Measurement) int { return better(metric, b, a) })
			best, c := ahead[0], metricColumn(metric)
			rows = append(rows, []cell{
				{Text: join("", words(shm.Settings, named))}, {Text: c.title}, {Text: join("", transports(ahead))},
				c.cell(best), c.cell(shm), ratioOf(shm.Values(metric), best.Values(metric)),
			})
		}
	}
	return rows, others
}

func transports(of []*results.Measurement) (names []string) {
	for _, m := range of {
		names = append(names, m.Transport)
	}
	return names
}

// rivals returns what a program could use instead of the shuffle for the same.
func rivals(f *results.File, shm *results.Measurement, metric results.Metric) (rivals []*results.Measurement) {
	if len(shm.Values(metric)) == 0 {
		return nil
	}
	for _, m := range f.Results {
		if m.Transport != "shm" && !slices.Contains(limits, m.Transport) && alike(shm.Settings, m.Settings) &&
			len(m.Values(metric)) > 0 {
			rivals = append(rivals, m)
		}
	}
	return rivals
}

// alike says whether two measurements are of the same, by different transports.
// What only the public API can be told does not count.
func alike(a, b results.Settings) bool {
	for _, s := range []*results.Settings{&a, &b} {
		s.Transport, s.PartitionType, s.FlushTimeout, s.Via = "", "", "", ""
	}
	return a == b
}

// better is above 0 if a has a better median than b, below if b has.
func better(metric results.Metric, a, b *results.Measurement) int {
	order := cmp.Compare(results.Median(a.Values(metric)), results.Median(b.Values(metric)))
	if metric.Better() == results.LowerIsBetter {
		return -order
	}
	return order
}

// ratioOf compares medians, and says so if the rounds do not tell them apart.
func ratioOf(ours, theirs []float64) (c cell) {
	if by := results.Median(theirs); by > 0 {
		c.Text = times(results.Median(ours) / by)
	}
	if slices.Min(ours) <= slices.Max(theirs) && slices.Min(theirs) <= slices.Max(ours) {
		c.Range = "rounds overlap"
	}
	return c
}
