// Package units reads and writes quantities as people type them on a command
// line: sizes in bytes with binary units.
package units

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// The units of a size.
const (
	KiB = 1 << 10
	MiB = 1 << 20
	GiB = 1 << 30
	TiB = 1 << 40
)

var sizeUnits = []struct {
	name  string
	bytes int64
}{{"TiB", TiB}, {"GiB", GiB}, {"MiB", MiB}, {"KiB", KiB}, {"B", 1}}

// ParseSize reads a size such as "65536", "32KiB", "1.5 GiB" or "64MiB" in
// bytes. Units are binary and their case does not matter; "K", "M", "G" and "T"
// stand for them too, as with most tools of Linux. Decimal units ("KB", "MB")
// are refused: half of the readers would take them for binary ones. So is a size
// that is no whole number of bytes, negative, or above 2^63-1.
func ParseSize(text string) (int64, error) {
	number, factor, err := cutUnit(strings.TrimSpace(text))
	if err != nil {
		return 0, err
	}
	outOfRange := fmt.Errorf("size %q is out of range, want 0 to %s", text, FormatSize(math.MaxInt64))
	switch n, err := strconv.ParseInt(number, 10, 64); {
	case errors.Is(err, strconv.ErrRange), err == nil && (n < 0 || n > math.MaxInt64/factor):
		return 0, outOfRange
	case err == nil:
		return n * factor, nil
	}
	whole, fraction, dotted := strings.Cut(number, ".")
	if !dotted || !isDigits(whole) || !isDigits(fraction) {
		return 0, fmt.Errorf("size %q is not a number with an optional unit (B, KiB, MiB, GiB, TiB), such as 512MiB",
			text)
	}
	f, err := strconv.ParseFloat(number, 64)
	n := f * float64(factor)
	switch {
	case err != nil || n >= math.MaxInt64:
		return 0, outOfRange
	case n != math.Trunc(n):
		return 0, fmt.Errorf("size %q is not a whole number of bytes", text)
	}
	return int64(n), nil
}

// cutUnit takes the unit off the end of a size.
func cutUnit(text string) (number string, factor int64, err error) {
	end := len(text)
	for end > 0 && (text[end-1] < '0' || text[end-1] > '9') && text[end-1] != '.' {
		end--
	}
	number, unit := strings.TrimSpace(text[:end]), strings.TrimSpace(text[end:])
	if unit == "" {
		return number, 1, nil
	}
	for _, u := range sizeUnits {
		if strings.EqualFold(unit, u.name) || strings.EqualFold(unit, u.name[:1]) {
			return number, u.bytes, nil
		}
	}
	for _, u := range sizeUnits[:len(sizeUnits)-1] {
		if strings.EqualFold(unit, u.name[:1]+"B") {
			return "", 0, fmt.Errorf("size %q has the unit %q, want a binary one: did you mean %s%s?", text, unit,
				number, u.name)
		}
	}
	return "", 0, fmt.Errorf("size %q has the unknown unit %q, want B, KiB, MiB, GiB or TiB", text, unit)
}

func isDigits(s string) bool {
	return s != "" && strings.Trim(s, "0123456789") == ""
}

// FormatSize writes a size so that ParseSize reads the same one: in the largest
// unit that divides it, in bytes if none does.
func FormatSize(n int64) string {
	for _, u := range sizeUnits {
		if n%u.bytes == 0 && (n != 0 || u.bytes == 1) {
			return strconv.FormatInt(n/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}

// ShortSize writes a size for people, to a tenth of its unit: "1.5GiB".
func ShortSize(n int64) string {
	for _, u := range sizeUnits {
		if n >= u.bytes && u.bytes > 1 {
			return strconv.FormatFloat(math.Round(float64(n)/float64(u.bytes)*10)/10, 'f', -1, 64) + u.name
		}
	}
	return strconv.FormatInt(n, 10) + "B"
}
