package units

import (
	"fmt"
	"strconv"
	"time"
)

// GroupDigits writes a number with commas between thousands.
func GroupDigits(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0 && digits[i-1] != '-'; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// FormatBytes writes a number of bytes with a binary unit.
func FormatBytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}

// FormatMillions writes a number in millions with three or more digits.
func FormatMillions(v float64) string {
	switch v /= 1e6; {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// Plural writes a count of things.
func Plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return GroupDigits(int64(n)) + " " + thing + "s"
}

// PerSecond returns n over d, 0 if no time passed.
func PerSecond(n int64, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}
