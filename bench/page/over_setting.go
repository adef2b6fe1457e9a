package page

import (
	"cmp"
	"slices"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

// An overSetting plots metrics over a setting, which is a number.
type overSetting struct {
	title string // of the axis
	of    func(results.Settings) int
	// without returns settings without this one, and without those that follow
	// from it.
	without func(results.Settings) results.Settings
}

// A graph is what one of its plots shows. The metrics share a unit, which is what
// the first one has on its axis if none is said.
type graph struct {
	caption, unit string
	metrics       []results.Metric
}

// panels returns the plots of what was measured: of a single value of the setting
// they are bars.
func (o overSetting) panels(all []*results.Measurement, graphs ...graph) (panels []panel) {
	for _, g := range graphs {
		if p, ok := o.panel(all, g); ok {
			panels = append(panels, p)
		}
	}
	return panels
}

func (o overSetting) panel(all []*results.Measurement, g graph) (panel, bool) {
	lines := o.series(all, g)
	if len(lines) == 0 {
		return panel{}, false
	}
	f := figureOf(g.metrics[0])
	var places []float64
	for _, s := range lines {
		for _, p := range s.points {
			places = append(places, p.x)
		}
	}
	if slices.Min(places) == slices.Max(places) {
		if g.unit != "" {
			f.title = g.unit
		}
		c := barChart{
			title: g.caption, desc: extent(g.caption, lines, f.cell), axis: f.title,
			values: linearAxis(slices.Max(values(lines)), f.binary), cell: f.cell, series: lines,
		}
		return panel{Caption: g.caption, Drawing: c.draw()}, true
	}
	p := plot{
		title: g.caption, desc: extent(g.caption+", by "+o.title, lines, f.cell),
		xTitle: o.title, x: valueAxis(places), xTick: func(v float64) string { return units.GroupDigits(int64(v)) },
		yTitle: cmp.Or(g.unit, f.axis), y: newAxis(values(lines), f.binary), yTick: f.tick,
		series: lines,
	}
	return panel{Caption: g.caption, Drawing: p.draw(), Legend: p.legend()}, true
}

// series returns a line for each metric of the measurements that differ in the
// setting alone.
func (o overSetting) series(all []*results.Measurement, g graph) (lines []series) {
	single := o.isSingle(all)
	for _, m := range all {
		x, settings := o.of(m.Settings), o.without(m.Settings)
		for _, metric := range g.metrics {
			rounds := m.Values(metric)
			if len(rounds) == 0 || x <= 0 && !single {
				continue
			}
			i := slices.IndexFunc(lines, func(s series) bool { return s.settings == settings && s.metric == metric })
			if i < 0 {
				i = len(lines)
				lines = append(lines, series{settings: settings, metric: metric})
			}
			p := point{x: float64(x), y: results.Median(rounds), low: slices.Min(rounds), high: slices.Max(rounds)}
			p.tip = tip(o.title, x, figureOf(metric), p)
			lines[i].points = append(lines[i].points, p)
		}
	}
	for _, s := range lines {
		slices.SortStableFunc(s.points, func(a, b point) int { return cmp.Compare(a.x, b.x) })
	}
	arrange(lines, len(g.metrics) > 1)
	return lines
}

// isSingle says whether all measurements have the same value of the setting.
func (o overSetting) isSingle(all []*results.Measurement) bool {
	return !slices.ContainsFunc(all,
		func(m *results.Measurement) bool { return o.of(m.Settings) != o.of(all[0].Settings) })
}

func tip(title string, x int, f figure, p point) string {
	text := f.title + " " + f.cell(p.y)
	if x > 0 {
		text = title + " " + units.GroupDigits(int64(x)) + ": " + text
	}
	if p.high > p.low {
		text += " (" + span(f.cell(p.low), f.cell(p.high)) + ")"
	}
	return text
}
