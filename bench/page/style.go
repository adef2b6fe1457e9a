package page

import (
	"slices"

	"shuffled/bench/results"
)

// A style tells a series from others by colour, by the shape of its points, and
// by its dashes, so that each of them is enough.
type style struct {
	Colour string // a class
	Shape  string // a path around the origin
	Dash   string
	Thick  bool
}

// The shapes of points, about 10 units wide.
const (
	circle       = "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0 -10 0z"
	square       = "M-4.6 -4.6h9.2v9.2h-9.2z"
	triangle     = "M0 -6L5.8 4.6H-5.8z"
	triangleDown = "M0 6L5.8 -4.6H-5.8z"
	diamond      = "M0 -6.4L6.4 0L0 6.4L-6.4 0z"
	plus         = "M-2 -6h4v4h4v4h-4v4h-4v-4h-4v-4h4z"
	cross        = "M-5.7 -2.8L-2.8 -5.7L0 -2.9L2.8 -5.7L5.7 -2.8L2.9 0L5.7 2.8L2.8 5.7L0 2.9L-2.8 5.7L-5.7 2.8L-2.9 0z"
)

// styles has the transports in the order in which they are shown. Those that no
// program would use, but that say what is possible, are grey and dashed.
var styles = []struct {
	transport string
	style     style
}{
	{"shm", style{Colour: "blue", Shape: circle, Thick: true}},
	{"ceiling", style{Colour: "grey", Shape: diamond, Dash: "7 4"}},
	{"futex", style{Colour: "grey", Shape: diamond, Dash: "7 4"}},
	{"cache-line", style{Colour: "ink", Shape: cross, Dash: "2 3"}},
	{"unix", style{Colour: "red", Shape: square}},
	{"tcp", style{Colour: "green", Shape: triangle}},
	{"pipe", style{Colour: "pink", Shape: triangleDown}},
	{"grpc", style{Colour: "yellow", Shape: plus}},
}

// dashes and shapes tell series of one transport apart.
var (
	dashes = []string{"", "9 4", "3 3", "12 3 3 3", "6 2 2 2 2 2"}
	shapes = []string{circle, square, triangle, diamond, triangleDown, plus, cross}
)

// styleOf returns the style of the nth series of a transport; other transports
// than those known share a colour.
func styleOf(transport string, nth int) style {
	known := rank(transport)
	s := style{Colour: "ink", Shape: cross}
	if known < len(styles) {
		s = styles[known].style
	}
	if nth > 0 {
		s.Dash = dashes[nth%len(dashes)]
		s.Shape = shapes[(slices.Index(shapes, s.Shape)+nth)%len(shapes)]
	}
	return s
}

// rank is the place of a transport in the order in which they are shown.
func rank(transport string) int {
	for i, s := range styles {
		if s.transport == transport {
			return i
		}
	}
	return len(styles)
}

// arrange brings series into the order of their transports and gives them names
// and styles. Of several metrics, the names say which it is.
func arrange(all []series, severalMetrics bool) {
	slices.SortStableFunc(all, func(a, b series) int { return rank(a.settings.Transport) - rank(b.settings.Transport) })
	var of []results.Settings
	for _, s := range all {
		of = append(of, s.settings)
	}
	apart, nth := varying(of), make(map[string]int)
	for i := range all {
		s := &all[i]
		s.label = label(s.settings, apart)
		if title := figureOf(s.metric).title; severalMetrics && len(apart) == 0 {
			s.label = title
		} else if severalMetrics {
			s.label += ": " + title
		}
		if s.saturated {
			s.label += ", saturated"
		}
		s.style = styleOf(s.settings.Transport, nth[s.settings.Transport])
		nth[s.settings.Transport]++
	}
}
