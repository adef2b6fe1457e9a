package page

import (
	"fmt"
	"slices"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

// A section is what one file has to say on one subject.
type section struct {
	ID, Title string
	// Of says which file it is, and how much was measured.
	Of      string
	Partial string // why it is not all, if it is not
	Text    string
	Blocks  []block
}

// A block has plots, and the same figures as a table.
type block struct {
	Heading string
	Panels  []panel
	Table   *table
	Rounds  *table // may be nil
}

// A panel is a plot with its legend.
type panel struct {
	Caption string
	Drawing drawing
	Legend  []legendEntry // empty if the drawing names its parts
}

// A kind of section is made of the files that it applies to.
type kind struct {
	title   string
	applies func(*results.File) bool
	text    string
	blocks  func(*results.File) []block
	// tiles are what the summary has of it.
	tiles func(*results.File) []tile
}

// kinds are in the order of the page.
var kinds = []kind{
	{"Throughput", ofWorkload("throughput"), throughputText, throughputBlocks, throughputTiles},
	{"Latency", ofWorkload("latency"), latencyText, latencyBlocks, latencyTiles},
	{"Fan-out", ofWorkload("fanout"), fanoutText, fanoutBlocks, fanoutTiles},
	{"Many partitions", ofWorkload("scale"), scaleText, scaleBlocks, scaleTiles},
	{"System calls and copies", hasAudit, auditText, auditBlocks, auditTiles},
	{"Profile", hasProfile, profileText, profileBlocks, noTiles},
}

func ofWorkload(workload string) func(*results.File) bool {
	return func(f *results.File) bool { return f.Workload == workload }
}

// kindsOf returns what a file is shown as: tables only if no kind applies.
func kindsOf(f *results.File) (of []kind) {
	for _, k := range kinds {
		if k.applies(f) {
			of = append(of, k)
		}
	}
	if len(of) == 0 {
		of = append(of, kind{title: "Workload " + f.Workload, blocks: tableBlocks})
	}
	return of
}

// tableBlocks shows all that a file has.
func tableBlocks(f *results.File) []block {
	if len(f.Results) == 0 {
		return nil
	}
	columns := append(metricColumns(measured(f.Results)...), ratioColumns(results.Ratios()...)...)
	return []block{{Table: newTable(f.Workload, f.Results, columns), Rounds: roundsTable(f.Results)}}
}

// disturbance is how many cores other programs may use in a round before the page
// says so.
const disturbance = 0.25

// describe says how much a file has.
func describe(f *results.File) string {
	least, most, disturbed, all := 0, 0, 0, 0
	for i, m := range f.Results {
		n := len(m.Rounds)
		all += n
		if i == 0 {
			least = n
		}
		least, most = min(least, n), max(most, n)
		for _, cores := range m.Values(results.OtherCores) {
			if cores >= disturbance {
				disturbed++
			}
		}
	}
	text := units.Plural(len(f.Results), "measurement")
	switch {
	case most == 0:
	case least == most:
		text += fmt.Sprintf(" of %s", units.Plural(most, "round"))
	default:
		text += fmt.Sprintf(" of %d to %s", least, units.Plural(most, "round"))
	}
	if disturbed > 0 {
		text += fmt.Sprintf("; other programs used %v cores or more in %d of %s", disturbance, disturbed,
			units.Plural(all, "round"))
	}
	return text
}

// sections returns what the page shows of some files: subject by subject, each of
// its files by itself, as only ratios within one file mean something.
func sections(sources []Source, suffix string) (all []section) {
	for _, k := range orderedKinds(sources) {
		var of []Source
		for _, s := range sources {
			if slices.ContainsFunc(kindsOf(s.File), func(other kind) bool { return other.title == k.title }) {
				of = append(of, s)
			}
		}
		for _, s := range of {
			title := k.title + suffix
			if len(of) > 1 {
				title += ": " + s.Name
			}
			all = append(all, section{
				Title: title, Of: s.Name + ": " + describe(s.File), Partial: s.File.Partial, Text: k.text,
				Blocks: k.blocks(s.File),
			})
		}
	}
	return all
}

// orderedKinds returns the kinds that some files have, those that are not known
// last.
func orderedKinds(sources []Source) (ordered []kind) {
	var found []kind
	for _, s := range sources {
		for _, k := range kindsOf(s.File) {
			if !slices.ContainsFunc(found, func(other kind) bool { return other.title == k.title }) {
				found = append(found, k)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b kind) int { return place(a) - place(b) })
	return found
}

// place is that of a kind in the order of the page.
func place(k kind) int {
	i := slices.IndexFunc(kinds, func(known kind) bool { return known.title == k.title })
	if i < 0 {
		return len(kinds)
	}
	return i
}
