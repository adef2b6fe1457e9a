package page

import (
	"fmt"
	"slices"
	"strings"

	"shuffled/bench/results"
)

// A plot has series of points over an axis. A value says how it varied.
type plot struct {
	title, desc string
	xTitle      string
	x           *axis
	xTick       func(float64) string
	y           *axis
	yTitle      string
	yTick       func(float64) string
	series      []series
}

// A series is what one line shows: settings without the one it is over, and a
// metric unless it is latencies.
type series struct {
	settings results.Settings
	metric   results.Metric
	// saturated says that records queued for as long as it was measured.
	saturated bool
	label     string
	style     style
	points    []point
}

type point struct {
	x, y, low, high float64
	tip             string // without one it has no mark
}

// values returns everything that a y axis has to show.
func values(all []series) (values []float64) {
	for _, s := range all {
		for _, p := range s.points {
			values = append(values, p.y, p.low, p.high)
		}
	}
	return values
}

// frame is where the points of a plot are.
type frame struct{ left, top, right, bottom px }

func (f frame) x(place float64) px { return f.left + px(place)*(f.right-f.left) }
func (f frame) y(place float64) px { return f.bottom - px(place)*(f.bottom-f.top) }

func (p *plot) draw() drawing {
	d := drawing{Title: p.title, Desc: p.desc, Width: width, Height: 300}
	f := frame{left: gap, top: 2.5 * textSize, right: width - 2*gap, bottom: d.Height - 3*textSize}
	for _, v := range p.y.ticks {
		f.left = max(f.left, textWidth(p.yTick(v))+gap)
	}
	p.drawY(&d, f)
	// Points stay clear of the frame.
	inner := frame{f.left + 2*gap, f.top, f.right - gap, f.bottom}
	p.drawX(&d, f, inner)
	for _, s := range p.series {
		c := curve{Style: s.style}
		var points []string
		for _, v := range s.points {
			x, y := inner.x(p.x.at(v.x)), inner.y(p.y.at(v.y))
			points = append(points, x.String()+","+y.String())
			if v.tip != "" {
				c.Marks = append(c.Marks, mark{x, y, s.label + ", " + v.tip})
			}
			if v.high > v.low {
				c.Whiskers = append(c.Whiskers, line{"", x, inner.y(p.y.at(v.low)), x, inner.y(p.y.at(v.high))})
			}
		}
		c.Points = strings.Join(points, " ")
		d.Curves = append(d.Curves, c)
	}
	// The first series is the one that matters: it lies above the others.
	slices.Reverse(d.Curves)
	return d
}

func (p *plot) drawY(d *drawing, f frame) {
	for _, v := range p.y.ticks {
		y := f.y(p.y.at(v))
		d.Lines = append(d.Lines, line{"grid", f.left, y, f.right, y})
		d.Texts = append(d.Texts, text{f.left - gap, y + 5, "end", "tick", p.yTick(v)})
	}
	d.Texts = append(d.Texts, text{0, textSize - 2, "start", "title", axisTitle(p.yTitle, p.y.log)})
}

func (p *plot) drawX(d *drawing, f, inner frame) {
	d.Lines = append(d.Lines, line{"axis", f.left, f.bottom, f.right, f.bottom})
	end := px(width) // where the tick to the right begins
	for i, v := range slices.Backward(p.x.ticks) {
		x, label := inner.x(p.x.at(v)), p.xTick(v)
		half := textWidth(label) / 2
		middle := min(x, width-half)
		d.Lines = append(d.Lines, line{"axis", x, f.bottom, x, f.bottom + 4})
		if middle+half+gap > end && i < len(p.x.ticks)-1 {
			continue // no room
		}
		end = middle - half
		d.Texts = append(d.Texts, text{middle, f.bottom + textSize + 4, "middle", "tick", label})
	}
	d.Texts = append(d.Texts, text{(f.left + f.right) / 2, d.Height - 6, "middle", "title",
		axisTitle(p.xTitle, p.x.log)})
}

func axisTitle(title string, log bool) string {
	if log {
		return title + " (log scale)"
	}
	return title
}

// A legend names the series of a plot.
type legendEntry struct {
	Style style
	Label string
}

func (p *plot) legend() (entries []legendEntry) {
	for _, s := range p.series {
		entries = append(entries, legendEntry{s.style, s.label})
	}
	return entries
}

// A barChart has a bar for each of some things that differ in name only.
type barChart struct {
	title, desc, axis string
	values            *axis
	cell              func(float64) string
	series            []series // of one point each
}

func (c *barChart) draw() drawing {
	const row, thickness = 46, 14
	d := drawing{Title: c.title, Desc: c.desc, Width: width, Height: px(2*textSize + row*len(c.series))}
	f := frame{right: width - 2*gap}
	d.Texts = append(d.Texts, text{0, textSize - 2, "start", "title", c.axis})
	for i, s := range c.series {
		p := s.points[0]
		top := px(2*textSize + row*i)
		value := c.cell(p.y)
		d.Texts = append(d.Texts,
			text{0, top + textSize - 3, "start", "name", fit(s.label, width-textWidth(value)-2*gap)},
			text{width, top + textSize - 3, "end", "value", value})
		y := top + textSize + 3
		d.Bars = append(d.Bars, bar{s.style.Colour, f.left, y, f.x(c.values.at(p.y)) - f.left, thickness,
			s.label + ", " + p.tip})
		if p.high > p.low {
			low, high, middle := f.x(c.values.at(p.low)), f.x(c.values.at(p.high)), y+thickness/2
			d.Lines = append(d.Lines, line{"range", low, middle, high, middle},
				line{"range", low, middle - 4, low, middle + 4}, line{"range", high, middle - 4, high, middle + 4})
		}
	}
	return d
}

// extent says in words what a drawing shows.
func extent(what string, all []series, cell func(float64) string) string {
	var parts []string
	for _, s := range all {
		first, last := s.points[0], s.points[len(s.points)-1]
		if len(s.points) == 1 {
			parts = append(parts, fmt.Sprintf("%s: %s", s.label, cell(first.y)))
		} else {
			parts = append(parts, fmt.Sprintf("%s: from %s to %s", s.label, cell(first.y), cell(last.y)))
		}
	}
	return what + ". " + strings.Join(parts, "; ") + "."
}
