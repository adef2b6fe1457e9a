package page

import (
	"fmt"
	"math"
	"strconv"

	"shuffled/internal/units"
)

// Numbers for tables and axes. All of them can be huge, or of a file that was
// written by hand.

// significant writes a number with three significant digits, and no exponent
// where people would not expect one.
func significant(v float64) string {
	switch size := math.Abs(v); {
	case v == 0:
		return "0"
	case size >= 1e15 || size < 1e-5:
		return fmt.Sprintf("%.2e", v)
	case size >= 999.5:
		return units.GroupDigits(int64(math.Round(v)))
	default:
		// The rounded number says how many digits are before the point: 9.996 is 10.0.
		rounded, _ := strconv.ParseFloat(strconv.FormatFloat(size, 'e', 2, 64), 64)
		decimals := 2 - int(math.Floor(math.Log10(rounded)))
		return strconv.FormatFloat(v, 'f', max(decimals, 0), 64)
	}
}

// whole writes a number of things that are counted, or how many there are of them
// for each of some others.
func whole(v float64) string {
	switch {
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return units.GroupDigits(int64(v))
	case v > 0 && v < 1e-5:
		return "<0.00001"
	}
	return significant(v)
}

// short writes a number for an axis: as few digits as it has, and a decimal
// prefix.
func short(v float64) string {
	for _, prefix := range []struct {
		name string
		size float64
	}{{"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if v >= prefix.size {
			return plain(v/prefix.size) + prefix.name
		}
	}
	return plain(v)
}

// plain writes a number without digits that say nothing.
func plain(v float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'e', 3, 64), 64)
	if size := math.Abs(rounded); size != 0 && size < 1e-6 || size >= 1e15 {
		return strconv.FormatFloat(rounded, 'e', -1, 64)
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// duration writes nanoseconds in a unit that fits.
func duration(ns float64, number func(float64) string) string {
	switch {
	case ns >= 1e9:
		return number(ns/1e9) + " s"
	case ns >= 1e6:
		return number(ns/1e6) + " ms"
	case ns >= 1e3:
		return number(ns/1e3) + " µs"
	}
	return number(ns) + " ns"
}

// bytes writes a number of bytes in a unit that fits.
func bytes(n float64, number func(float64) string) string {
	for _, unit := range []struct {
		name string
		size float64
	}{{" GiB", units.GiB}, {" MiB", units.MiB}, {" KiB", units.KiB}} {
		if n >= unit.size {
			return number(n/unit.size) + unit.name
		}
	}
	return number(n) + " B"
}

// times writes a ratio.
func times(ratio float64) string { return significant(ratio) + " ×" }
