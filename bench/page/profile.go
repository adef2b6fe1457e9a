package page

import (
	"slices"
	"strings"
	"time"

	"shuffled/bench/profile"
	"shuffled/bench/results"
)

const profileText = "What the kernel did for the processes of each role, in all rounds that were watched. " +
	"Time without a core is that of all threads together, and most of them wait for work: those of a Go program " +
	"in futexes of its own."

func hasProfile(f *results.File) bool {
	return slices.ContainsFunc(f.Results, func(m *results.Measurement) bool { return m.Profile != nil })
}

func noTiles(*results.File) []tile { return nil }

func profileBlocks(f *results.File) (blocks []block) {
	for _, report := range profile.Describe(f) {
		for i, t := range report.Tables {
			b := block{Table: textTable(t.Head, t.Rows)}
			if i == 0 {
				b.Heading = report.Title
				for _, c := range report.Charts {
					b.Panels = append(b.Panels, distribution(c))
				}
			}
			blocks = append(blocks, b)
		}
		if len(report.Lines) > 0 {
			t := &table{Caption: "Remarks", Head: []string{"remark"}, Words: 1}
			for _, line := range report.Lines {
				t.Rows = append(t.Rows, []cell{{Text: line}})
			}
			blocks = append(blocks, block{Table: t})
		}
	}
	return blocks
}

// textTable is a table of text that is ready to be shown. Parts of a row above
// are indented by characters that do not break.
func textTable(head []string, rows [][]string) *table {
	t := &table{Caption: head[0], Head: slices.Concat([]string{""}, head[1:]), Names: 1, Words: 1}
	for _, row := range rows {
		var cells []cell
		for i, text := range row {
			if i == 0 {
				text = strings.ReplaceAll(text, "  ", "\u00a0\u00a0\u00a0")
			}
			cells = append(cells, cell{Text: text})
		}
		t.Rows = append(t.Rows, cells)
	}
	return t
}

// seriesStyles are those of distributions, which are of no transport.
var seriesStyles = []style{
	{Colour: "blue", Shape: circle}, {Colour: "red", Shape: square}, {Colour: "green", Shape: triangle},
	{Colour: "yellow", Shape: diamond},
}

// distribution plots how durations are distributed.
func distribution(c profile.Chart) panel {
	p := plot{
		title: c.Title, desc: c.Title + ": which part of all is from a duration up to its double.",
		xTitle: "from", xTick: func(ns float64) string { return duration(ns, plain) },
		yTitle: "part of all, %", yTick: plain,
	}
	for i, name := range c.Series {
		s := series{label: name, style: seriesStyles[i%len(seriesStyles)]}
		for _, b := range c.Buckets {
			percent := 100 * b.Shares[i]
			s.points = append(s.points, point{
				x: float64(b.From), y: percent, low: percent, high: percent,
				tip: "from " + duration(float64(b.From), significant) + ": " + significant(percent) + " %",
			})
		}
		p.series = append(p.series, s)
	}
	last := c.Buckets[len(c.Buckets)-1]
	p.x = logAxis(float64(max(c.Buckets[0].From, time.Nanosecond)), 2*float64(last.From), false)
	p.y = linearAxis(slices.Max(values(p.series)), false)
	return panel{Caption: c.Title, Drawing: p.draw(), Legend: p.legend()}
}
