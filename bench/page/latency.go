package page

import (
	"cmp"
	"slices"
	"strconv"

	"shuffled/bench/results"
)

const latencyText = "One way, records are sent at a rate, and the time is from when a record was due to when it was received, " +
	"so that one that had to wait for others counts with its waiting. Round trips follow each other. " +
	"Percentiles are those of all rounds together, with the lowest and highest round; ratios are of the medians of rounds. " +
	"Both axes are logarithmic: each step to the right leaves a tenth of the records above it."

// percentiles are those in tables and at ticks; the last is the highest latency.
var percentiles = []struct {
	percent float64
	metric  results.Metric // of a round
}{
	{50, results.P50}, {90, results.P90}, {99, results.P99}, {99.9, results.P999}, {99.99, results.P9999}, {99.999, ""},
	{100, results.Highest},
}

// latencyBlocks has plots side by side of what differs in more than the
// transport, with one axis of time.
func latencyBlocks(f *results.File) []block {
	if len(f.Results) == 0 {
		return nil
	}
	var all []float64
	var of []results.Settings
	var lines [][]series
	for _, g := range latencyGroups(f.Results) {
		of, lines = append(of, g.of), append(lines, latencySeries(g.all))
		all = append(all, values(lines[len(lines)-1])...)
	}
	columns := append(percentileColumns(), column{"received a second", achieved})
	columns = append(columns, ratioColumns(results.RatioToUnixP50, results.RatioToFutex, results.RatioToCacheLine)...)
	b := block{
		Table:  newTable("Latency, of all rounds and lowest – highest round", f.Results, columns),
		Rounds: roundsTable(f.Results),
	}
	apart, y := varying(of), newAxis(all, false)
	for i := range of {
		caption := "Latency by percentile"
		if what := label(of[i], apart); what != "" {
			caption += ": " + what
		}
		if p, ok := latencyPanel(caption, lines[i], y); ok {
			b.Panels = append(b.Panels, p)
		}
	}
	return []block{b}
}

// latencyGroups has what is shown in one plot. Bare round trips have no records,
// so they are shown beside those of records of every size.
func latencyGroups(all []*results.Measurement) []group {
	groups := groupBy(all, func(s results.Settings) results.Settings {
		s.Transport, s.PartitionType, s.FlushTimeout, s.Via = "", "", "", ""
		return s
	})
	joined := make(map[results.Settings]bool)
	for _, bare := range groups {
		for i := range groups {
			g, same := &groups[i], groups[i].of
			same.RecordSize = 0
			if bare.of.RecordSize == 0 && g.of.RecordSize != 0 && same == bare.of {
				g.all = append(g.all, bare.all...)
				joined[bare.of] = true
			}
		}
	}
	return slices.DeleteFunc(groups, func(g group) bool { return joined[g.of] })
}

// achieved says at which rate records got through, and whether that was not the
// one that was planned.
func achieved(m *results.Measurement) cell {
	c := metricColumn(results.AchievedPerS).cell(m)
	if m.Saturated {
		c.Range = join("saturated", []string{c.Range})
	}
	return c
}

func latencyPanel(caption string, lines []series, y *axis) (panel, bool) {
	if len(lines) == 0 {
		return panel{}, false
	}
	highest := 0.0
	for _, s := range lines {
		highest = max(highest, s.points[len(s.points)-1].x)
	}
	f := figureOf(results.P50)
	p := plot{
		title: caption, desc: extent(caption, lines, f.cell),
		xTitle: "percent of records", x: ninesAxis(highest), xTick: percentText,
		yTitle: f.axis, y: y, yTick: f.tick,
		series: lines,
	}
	return panel{Caption: caption, Drawing: p.draw(), Legend: p.legend()}, true
}

// latencySeries has the percentiles of each measurement, with marks at those of
// the tables. All records, the 100th percentile, have no place on the axis.
func latencySeries(all []*results.Measurement) (lines []series) {
	f := figureOf(results.P50)
	for _, m := range all {
		s := series{settings: m.Settings, saturated: m.Saturated}
		for _, p := range pooled(m) {
			if p.Percent < 50 || p.Percent >= 100 {
				continue
			}
			ns := max(float64(p.Ns), 1)
			at := point{x: p.Percent, y: ns, low: ns, high: ns}
			if i := percentileAt(p.Percent); i >= 0 {
				at.tip = percentText(p.Percent) + " %: " + f.cell(ns)
				if rounds := m.Values(percentiles[i].metric); len(rounds) > 0 {
					at.low, at.high = max(slices.Min(rounds), 1), max(slices.Max(rounds), 1)
				}
			}
			s.points = append(s.points, at)
		}
		if len(s.points) > 0 {
			lines = append(lines, s)
		}
	}
	arrange(lines, false)
	return lines
}

func percentText(percent float64) string { return strconv.FormatFloat(percent, 'f', -1, 64) }

func percentileAt(percent float64) int {
	for i, p := range percentiles {
		if p.percent == percent {
			return i
		}
	}
	return -1
}

// pooled returns the percentiles of all rounds together in their order, or if the
// file has none the medians of those of the rounds.
func pooled(m *results.Measurement) []results.Percentile {
	pooled := slices.Clone(m.Percentiles)
	if len(pooled) == 0 {
		for _, p := range percentiles {
			if rounds := m.Values(p.metric); len(rounds) > 0 {
				pooled = append(pooled, results.Percentile{Percent: p.percent, Ns: int64(results.Median(rounds))})
			}
		}
	}
	slices.SortStableFunc(pooled, func(a, b results.Percentile) int { return cmp.Compare(a.Percent, b.Percent) })
	return pooled
}

func percentileColumns() (columns []column) {
	for _, p := range percentiles {
		title := percentText(p.percent) + "\u00a0%"
		if p.percent == 100 {
			title = "highest"
		}
		columns = append(columns,
			column{title, func(m *results.Measurement) cell { return percentileCell(m, p.percent, p.metric) }})
	}
	return columns
}

// percentileCell has a percentile of all rounds together, and the lowest and
// highest of those of single rounds.
func percentileCell(m *results.Measurement, percent float64, ofRound results.Metric) (c cell) {
	f := figureOf(results.P50)
	for _, p := range pooled(m) {
		if p.Percent == percent {
			c.Text = f.cell(float64(p.Ns))
		}
	}
	c.Range = spread(m.Values(ofRound), f.cell)
	return c
}

// latencyTiles has the shuffle's median and what is rarely exceeded, for each way
// of waiting.
func latencyTiles(f *results.File) (tiles []tile) {
	shm := firstOfEach(ofTransport(f.Results, "shm", results.P50), func(s results.Settings) results.Settings {
		return results.Settings{Path: s.Path, Waiting: s.Waiting}
	})
	for _, m := range shm {
		t := tile{Value: percentileCell(m, 50, results.P50).Text,
			Label: join("Latency, median", words(m.Settings, telling(shm, "path", "waiting", "sent a second")))}
		if text := percentileCell(m, 99, results.P99).Text; text != "" {
			t.Notes = append(t.Notes, "99 % within "+text)
		}
		for _, to := range []struct {
			ratio results.Metric
			what  string
		}{{results.RatioToUnixP50, " a Unix socket"}, {results.RatioToFutex, " a bare futex"},
			{results.RatioToCacheLine, " a bare cache line"}} {
			if ratio, ok := m.Value(to.ratio); ok {
				t.Notes = append(t.Notes, times(ratio)+to.what)
			}
		}
		if m.Saturated {
			t.Notes = append(t.Notes, "saturated: the rate was not reached")
		}
		tiles = append(tiles, t)
	}
	return tiles
}
