package results

import (
	"strconv"
	"strings"

	"golang.org/x/perf/benchunit"
)

// unitWords are what units are made of, as names have them and as the Go
// benchmark format has them.
var unitWords = strings.NewReplacer("_per_", "/", "_", "-", "bytes", "B", "byte", "B", "gib", "GiB", "mib", "MiB")

// Unit returns the unit in the style of the Go benchmark format, which tells the
// metric too: "records/s", "cpu-s/GiB", "p99-ns".
func (m Metric) Unit() string { return unitWords.Replace(string(m)) }

// IsTime reports whether the figures of a metric are times in nanoseconds.
func (m Metric) IsTime() bool {
	return strings.HasSuffix(string(m), "_ns") || strings.Contains(string(m), "_ns_per_")
}

// Format writes a figure of the metric for people, without its unit except for
// times: "60.00M", "0.5", "4.060µs".
func (m Metric) Format(v float64) string {
	switch {
	case m.IsTime() && v > 0:
		return benchunit.Scale(v/1e9, benchunit.Decimal) + "s"
	case v >= 1000:
		return benchunit.Scale(v, benchunit.Decimal)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
