package profile

import (
	"fmt"
	"math"
	"slices"

	"shuffled/bench/results"
)

// Limits are what producers and consumers together may take of the kernel at
// most. Infinity is no limit.
type Limits struct {
	CopiedPerByte, SystemCallsPerMiB, WakeupsPerMiB float64
}

// A Verdict is a figure beside its limit.
type Verdict struct {
	What string // is limited
	// Value is the median over rounds, if the figure was Measured.
	Value    float64
	Measured bool
	Limit    float64
}

// Check compares a measurement with the limits.
func (l Limits) Check(m *results.Measurement) []Verdict {
	verdict := func(what string, metric results.Metric, limit float64) Verdict {
		v, ok := m.Medians[metric]
		return Verdict{what, v, ok, limit}
	}
	return []Verdict{
		verdict("bytes copied by the kernel per byte of records", results.CopiedPerByte, l.CopiedPerByte),
		verdict("system calls per MiB of records", results.SystemCallsPerMiB, l.SystemCallsPerMiB),
		verdict("wake-ups per MiB of records", results.WakeupsPerMiB, l.WakeupsPerMiB),
	}
}

// Failed returns whether the figure is above its limit.
func (v Verdict) Failed() bool { return v.Measured && v.Value > v.Limit }

// String returns the figure, its limit, and whether it passes.
func (v Verdict) String() string {
	switch {
	case !v.Measured:
		return fmt.Sprintf("%s: %s", v.What, notMeasured)
	case math.IsInf(v.Limit, 1):
		return fmt.Sprintf("%s: %s", v.What, number(v.Value))
	case v.Failed():
		return fmt.Sprintf("%s: %s, more than %s: FAIL", v.What, number(v.Value), number(v.Limit))
	}
	return fmt.Sprintf("%s: %s, at most %s: pass", v.What, number(v.Value), number(v.Limit))
}

// ByRole sums up the profiles of a file: a line for each role of each transport,
// and the system calls that each of them makes.
func ByRole(f *results.File) *Report {
	r := &Report{Title: "all rounds together, by role"}
	var remarked []string
	said := map[string]bool{} // what is not measured, whatever the reason
	t := Table{Head: []string{"", "copied B/B", "calls/MiB", "wake-ups/MiB"}}
	for _, m := range f.Results {
		if m.Profile == nil || m.Profile.PayloadBytes <= 0 {
			continue
		}
		for _, line := range remarks(withoutSaid(m.Profile, said)) {
			if !slices.Contains(remarked, line) {
				remarked = append(remarked, line)
			}
		}
		b := newBuilder(m.Profile)
		for i := range m.Profile.Roles {
			role := &m.Profile.Roles[i]
			name := fmt.Sprintf("%s: %s", label(f, m), role.Role)
			t.Rows = append(t.Rows, []string{
				name,
				cell(role, float64(m.Profile.PayloadBytes), results.CopiedFromUser, results.CopiedToUser),
				cell(role, b.per, results.SystemCalls),
				cell(role, b.per, results.Woken),
			})
			if line := b.calls(role); line != "" {
				r.Lines = append(r.Lines, fmt.Sprintf("%s calls %s", name, line))
			}
		}
	}
	r.Tables = []Table{t}
	r.Lines = append(r.Lines, remarked...)
	return r
}
