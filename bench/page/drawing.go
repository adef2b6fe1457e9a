package page

import (
	"math"
	"strconv"
	"strings"
)

// A drawing is an SVG image as the template writes it. A unit is about a pixel on
// a phone and 1.3 on a desk; text has up to textSize units.
type drawing struct {
	Title, Desc   string
	Width, Height px
	Lines         []line
	Bars          []bar
	Curves        []curve
	Texts         []text
}

// A line is a part of the grid, of an axis, or of a series: its class says so.
type line struct {
	Class          string
	X1, Y1, X2, Y2 px
}

type bar struct {
	Class               string
	X, Y, Width, Height px
	Tip                 string
}

// A curve goes through marks. Its whiskers are behind them.
type curve struct {
	Style    style
	Points   string
	Whiskers []line
	Marks    []mark
}

type mark struct {
	X, Y px
	Tip  string
}

type text struct {
	X, Y   px
	Anchor string // start, middle or end
	Class  string
	Text   string
}

// px is a length in units of a drawing.
type px float64

func (p px) String() string {
	return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64)
}

// Sizes of drawings, in units.
const (
	width = 440
	// textSize is that on a phone, where text is largest beside the plot.
	textSize = 16
	gap      = 6
)

// textWidth is how wide a text is at most in most fonts; which one is not known.
func textWidth(s string) (width px) {
	for _, r := range s {
		if strings.ContainsRune("mMwW%@", r) {
			width += 0.95 * textSize
		} else {
			width += 0.64 * textSize
		}
	}
	return width
}

// fit cuts a text that is wider than room.
func fit(s string, room px) string {
	runes := []rune(s)
	for n := len(runes) - 1; textWidth(s) > room && n > 0; n-- {
		s = string(runes[:n]) + "…"
	}
	return s
}
