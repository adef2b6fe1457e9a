package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"shuffled/bench"
	"shuffled/bench/results"
	"shuffled/internal/cli"
)

// An assertion is a condition on a figure that must hold for a run to succeed.
type assertion struct {
	text     string
	where    results.Settings // of the measurements it is on
	metric   results.Metric
	operator string
	limit    float64 // in the unit of the metric
}

// operators are the comparisons, longer ones first.
var operators = []string{">=", "<=", "==", ">", "<"}

var timeUnits = []struct {
	name string
	ns   float64
}{{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"ms", 1e6}, {"s", 1e9}}

// parseAssertion reads "[setting=value,...:] metric operator number", such as
// "transport=shm,record_size=100: ratio_to_unix >= 2" or "p99_ns<200us".
func parseAssertion(text string) (a assertion, err error) {
	a.text = text
	condition := text
	if where, rest, ok := strings.Cut(text, ":"); ok {
		condition = rest
		for setting := range strings.SplitSeq(where, ",") {
			name, value, ok := strings.Cut(setting, "=")
			name, value = strings.TrimSpace(name), strings.TrimSpace(value)
			if !ok {
				return a, cli.Usagef("%q before the colon: want setting=value, such as record_size=100",
					strings.TrimSpace(setting))
			}
			if !slices.Contains(results.SettingNames(), name) {
				return a, cli.Unknown("setting", name, results.SettingNames())
			}
			if err := a.where.Set(name, value); err != nil {
				return a, err
			}
		}
	}
	at := strings.IndexAny(condition, "<>=!")
	if at < 0 {
		return a, cli.Usagef("no comparison: want a condition such as 'ratio_to_unix>=2' or 'p99_ns<200us'")
	}
	a.metric = results.Metric(strings.TrimSpace(condition[:at]))
	if err := checkFigure(a.metric); err != nil {
		return a, err
	}
	i := slices.IndexFunc(operators, func(o string) bool { return strings.HasPrefix(condition[at:], o) })
	if i < 0 {
		return a, cli.Usagef("unknown comparison at %q: want one of %s", condition[at:], strings.Join(operators, " "))
	}
	a.operator = operators[i]
	a.limit, err = parseLimit(a.metric, strings.TrimSpace(condition[at+len(a.operator):]))
	return a, err
}

// checkFigure refuses names that no result can have.
func checkFigure(name results.Metric) error {
	var names []string
	for _, known := range slices.Concat(results.Metrics, results.Ratios()) {
		if name == known {
			return nil
		}
		if known == name+"_ns" {
			return cli.Usagef("unknown figure %q: did you mean %s?", name, known)
		}
		names = append(names, string(known))
	}
	return cli.Unknown("figure", string(name), names)
}

// parseLimit reads a number, which may have a unit if the metric is a time.
func parseLimit(metric results.Metric, text string) (float64, error) {
	number, factor := text, 1.0
	if metric.IsTime() {
		for _, unit := range timeUnits {
			if n, ok := strings.CutSuffix(text, unit.name); ok {
				number, factor = strings.TrimSpace(n), unit.ns
				break
			}
		}
	}
	v, err := strconv.ParseFloat(number, 64)
	switch finite := err == nil && !math.IsNaN(v) && !math.IsInf(v, 0); {
	case finite:
		return v * factor, nil
	case metric.IsTime():
		return 0, cli.Usagef("limit %q: want a number, in ns or with one of the units ns, us, ms, s", text)
	}
	return 0, cli.Usagef("limit %q: want a number, %s has no units", text, metric)
}

// check writes how each measurement that the assertion is on fares, and reports
// whether there are some and it holds for all. What was not measured fails.
func (a assertion) check(f *results.File, out io.Writer) bool {
	matched, holds := false, true
	for _, m := range f.Results {
		if !a.on(f).Match(m.Settings) {
			continue
		}
		matched = true
		v, measured := m.Value(a.metric)
		verdict, value := "ok", "not measured"
		if measured {
			value = strconv.FormatFloat(v, 'g', 6, 64)
		}
		if !measured || !a.holds(v) {
			verdict, holds = "failed", false
		}
		fmt.Fprintf(out, "assert %s: %s: %v: %s is %s, want %s %v\n", a.text, verdict, m.Settings, a.metric, value,
			a.operator, a.limit)
	}
	if !matched {
		fmt.Fprintf(out, "assert %s: failed: no measurement has %v\n", a.text, a.on(f))
	}
	return matched && holds
}

// on returns the settings of the measurements that the assertion is on. If it
// names no transport, that is the shuffle where that was measured.
func (a assertion) on(f *results.File) results.Settings {
	where := a.where
	isShuffle := func(m *results.Measurement) bool { return m.Transport == string(bench.Shm) }
	if where.Transport == "" && slices.ContainsFunc(f.Results, isShuffle) {
		where.Transport = string(bench.Shm)
	}
	return where
}

func (a assertion) holds(v float64) bool {
	switch a.operator {
	case ">=":
		return v >= a.limit
	case "<=":
		return v <= a.limit
	case ">":
		return v > a.limit
	case "<":
		return v < a.limit
	}
	return v == a.limit
}
