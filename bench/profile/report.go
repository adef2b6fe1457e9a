package profile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuffled/bench/results"
	"shuffled/internal/probe"
	"shuffled/internal/units"
)

// A Report is a profile laid out for people.
type Report struct {
	Title  string
	Tables []Table
	Charts []Chart
	Lines  []string
}

// A Table has a head and rows of as many cells. The first of each is a title.
type Table struct {
	Head []string
	Rows [][]string
}

// A Chart shows how durations are distributed, side by side for some series. Each
// bucket goes up to the one after it.
type Chart struct {
	Title   string
	Series  []string
	Buckets []Bucket
}

// A Bucket has the durations from From on, by series.
type Bucket struct {
	From   time.Duration
	Counts []uint64
	// Shares are those of all durations of the series, from 0 to 1.
	Shares []float64
}

const notMeasured = "not measured"

// Describe lays out the profiles of a file, in the order of its measurements.
func Describe(f *results.File) (all []*Report) {
	for _, m := range f.Results {
		if m.Profile != nil {
			all = append(all, describe(label(f, m), m.Profile))
		}
	}
	return all
}

func describe(of string, p *results.Profile) *Report {
	r := &Report{Title: title(of, p)}
	b := newBuilder(p)
	r.Tables = append(r.Tables, b.byRole())
	if wakes := b.wakes(); wakes != nil {
		r.Tables = append(r.Tables, *wakes)
	}
	latencies := chartMaker{Chart: Chart{Title: "wake-up latency"}}
	for _, role := range p.Roles {
		latencies.add(role.Role, role.WakeLatency)
	}
	r.Charts = latencies.appendTo(r.Charts)
	if h := p.Handoff; h != nil {
		handoffs := chartMaker{Chart: Chart{Title: "way of buffers"}}
		handoffs.add("to consumer", h.Latency)
		r.Charts = handoffs.appendTo(r.Charts)
		r.Lines = append(r.Lines, handoffLine(h))
	}
	for _, o := range p.Overheads {
		r.Lines = append(r.Lines, overheadLine(o))
	}
	if p.Skipped > 0 {
		r.Lines = append(r.Lines, units.Plural(int(p.Skipped), "event")+
			" came while another one was being counted, and may be missing in some figure")
	}
	r.Lines = append(r.Lines, remarks(p)...)
	return r
}

// remarks are what one must know to read the figures.
func remarks(p *results.Profile) (lines []string) {
	if p.CopySource != "" {
		lines = append(lines, "bytes copied are "+p.CopySource)
	}
	for _, missing := range p.Missing {
		lines = append(lines, fmt.Sprintf("not measured: %s: %s", missing.What, missing.Why))
	}
	return append(lines, p.Notes...)
}

func title(of string, p *results.Profile) string {
	text := fmt.Sprintf("%s: %.1f s", of, p.Seconds)
	if p.PayloadBytes > 0 {
		text += fmt.Sprintf(", %s of records", units.FormatBytes(p.PayloadBytes))
	}
	by := map[results.ProfileSource]string{results.FromBPF: "counted in the kernel by eBPF",
		results.FromProc: "read from /proc"}
	return text + ", " + cmp.Or(by[p.Source], string(p.Source))
}

// label names a measurement by its transport, its size of records and what else
// it differs in from others of that transport with a profile.
func label(f *results.File, m *results.Measurement) string {
	words := []string{m.Transport}
	for _, s := range m.List() {
		differs := slices.ContainsFunc(f.Results, func(other *results.Measurement) bool {
			return other.Profile != nil && other.Transport == m.Transport && !slices.Contains(other.List(), s)
		})
		switch {
		case s.Name == "record_size":
			words = append(words, s.Value+" B")
		case differs:
			words = append(words, strings.ReplaceAll(s.Name, "_", " ")+" "+s.Value)
		}
	}
	return strings.Join(words, ", ")
}

// A builder makes the tables of one profile.
type builder struct {
	profile *results.Profile
	// per is what counts are divided by, unit its name.
	per  float64
	unit string
}

func newBuilder(p *results.Profile) *builder {
	if p.PayloadBytes > 0 {
		return &builder{p, float64(p.PayloadBytes) / units.MiB, "per MiB of records"}
	}
	return &builder{p, p.Seconds, "per second"}
}

// byRole is the table with a column for each role.
func (b *builder) byRole() Table {
	t := Table{Head: []string{b.unit}}
	for _, role := range b.profile.Roles {
		t.Head = append(t.Head, role.Role)
	}
	b.add(&t, "system calls", results.SystemCalls, b.per)
	b.addParts(&t, "", results.SystemCalls, b.per)
	if b.profile.Source == results.FromProc {
		b.add(&t, "system calls that read or write", results.ReadWriteCalls, b.per)
	}
	bytes, perBytes := " bytes", b.per
	if b.profile.PayloadBytes > 0 {
		bytes, perBytes = " bytes per byte", float64(b.profile.PayloadBytes)
	}
	b.add(&t, "copied from user memory,"+bytes, results.CopiedFromUser, perBytes)
	b.addParts(&t, "into ", results.OutBytes, perBytes)
	b.add(&t, "copied to user memory,"+bytes, results.CopiedToUser, perBytes)
	b.addParts(&t, "from ", results.InBytes, perBytes)
	b.add(&t, "wake-ups", results.Woken, b.per)
	b.addQuantiles(&t, "wake-up latency")
	b.add(&t, "waits for futexes between processes", results.SharedFutexWaits, b.per)
	b.add(&t, "wakes of futexes between processes", results.SharedFutexWakes, b.per)
	b.add(&t, "waits for futexes within a process", results.PrivateFutexWaits, b.per)
	b.add(&t, "wakes of futexes within a process", results.PrivateFutexWakes, b.per)
	b.add(&t, "switches by having to wait", results.VoluntarySwitches, b.per)
	b.add(&t, "switches by others' turn", results.InvoluntarySwitches, b.per)
	b.add(&t, "time without a core, µs of all threads", results.OffCPU, b.per/1e6)
	b.addParts(&t, "", results.OffCPU, b.per/1e6)
	b.add(&t, "page faults", results.PageFaults, b.per)
	b.add(&t, "page faults that waited for a disk", results.MajorFaults, b.per)
	b.add(&t, "first touches of shared memory", results.FirstTouches, b.per)
	return t
}

func (b *builder) row(t *Table, title string, cell func(r *results.RoleProfile) string) {
	row := []string{title}
	for i := range b.profile.Roles {
		row = append(row, cmp.Or(cell(&b.profile.Roles[i]), notMeasured))
	}
	t.Rows = append(t.Rows, row)
}

// add adds a row with a figure.
func (b *builder) add(t *Table, title string, figure results.Figure, per float64) {
	b.row(t, title, func(r *results.RoleProfile) string {
		return cell(r, per, figure)
	})
}

// cell shows the sum of some figures of a role.
func cell(r *results.RoleProfile, per float64, figures ...results.Figure) string {
	var sum float64
	for _, figure := range figures {
		v, ok := r.Figures[figure]
		if !ok {
			return notMeasured
		}
		sum += v
	}
	return number(sum / per)
}

// calls lists the most frequent system calls of a role.
func (b *builder) calls(r *results.RoleProfile) string {
	var words []string
	for _, name := range r.Figures.Parts(results.SystemCalls) {
		words = append(words, fmt.Sprintf("%s %s", name, number(r.Figures[results.SystemCalls.Part(name)]/b.per)))
	}
	return strings.Join(words[:min(len(words), mostParts)], ", ")
}

// mostParts is how many parts of a figure are shown.
const mostParts = 8

// addParts adds rows for the largest parts of a figure.
func (b *builder) addParts(t *Table, prefix string, whole results.Figure, per float64) {
	all := results.Figures{}
	for _, role := range b.profile.Roles {
		for _, name := range role.Figures.Parts(whole) {
			all[whole.Part(name)] += role.Figures[whole.Part(name)]
		}
	}
	names := all.Parts(whole)
	for _, name := range names[:min(len(names), mostParts)] {
		b.row(t, indent+prefix+name, func(r *results.RoleProfile) string {
			if _, ok := r.Figures[whole]; ok {
				return number(r.Figures[whole.Part(name)] / per)
			}
			return ""
		})
	}
	if left := len(names) - mostParts; left > 0 {
		t.Rows = append(t.Rows, slices.Concat([]string{fmt.Sprintf("%s%d more", indent, left)},
			make([]string, len(b.profile.Roles))))
	}
}

const indent = "  "

// addQuantiles adds rows for the latency of wake-ups.
func (b *builder) addQuantiles(t *Table, title string) {
	for _, percent := range []float64{50, 99} {
		b.row(t, fmt.Sprintf("%s%s, %v %%", indent, title, percent), func(r *results.RoleProfile) string {
			switch {
			case r.WakeLatency == nil:
				return ""
			case r.WakeLatency.Count() == 0:
				return "none"
			}
			return duration(quantile(r.WakeLatency, percent/100))
		})
	}
}

// wakes is the table of who woke whom; nil if that was not measured.
func (b *builder) wakes() *Table {
	t := &Table{Head: []string{"wakes " + b.unit}}
	wakers := []string{}
	measured := false
	for _, role := range b.profile.Roles {
		_, ok := role.Figures[results.Woken]
		measured = measured || ok
		t.Head = append(t.Head, "of "+role.Role)
		wakers = append(wakers, role.Role)
	}
	if !measured {
		return nil
	}
	t.Head = append(t.Head, "of "+otherRole)
	for _, waker := range append(wakers, otherRole) {
		row := []string{"by " + waker}
		for _, woken := range b.profile.Roles {
			row = append(row, number(woken.Figures[results.Woken.Part(waker)]/b.per))
		}
		others := "-"
		if role := b.profile.Role(waker); role != nil {
			others = number(role.Figures[results.Woke.Part(otherRole)] / b.per)
		}
		t.Rows = append(t.Rows, append(row, others))
	}
	return t
}

// A chartMaker makes a chart of histograms.
type chartMaker struct {
	Chart
	histograms []results.Histogram
}

// most is how many buckets a duration has room for.
const most = 63

// add adds a series, unless it is empty.
func (c *chartMaker) add(name string, h results.Histogram) {
	h = h[:min(len(h), most)]
	if h.Count() > 0 {
		c.Series, c.histograms = append(c.Series, name), append(c.histograms, h)
	}
}

// appendTo appends the chart, unless it is empty.
func (c *chartMaker) appendTo(charts []Chart) []Chart {
	if len(c.histograms) == 0 {
		return charts
	}
	first, last := math.MaxInt, 0
	for _, h := range c.histograms {
		first = min(first, slices.IndexFunc(h, func(n uint64) bool { return n > 0 }))
		last = max(last, len(h)-1)
	}
	for i := first; i <= last; i++ {
		b := Bucket{From: time.Duration(math.Exp2(float64(i)))}
		for _, h := range c.histograms {
			n := uint64(0)
			if i < len(h) {
				n = h[i]
			}
			b.Counts, b.Shares = append(b.Counts, n), append(b.Shares, float64(n)/float64(h.Count()))
		}
		c.Buckets = append(c.Buckets, b)
	}
	return append(charts, c.Chart)
}

func handoffLine(h *results.Handoff) string {
	n := h.Latency.Count()
	if n == 0 || h.Buffers <= 0 {
		return "way of buffers from producer to consumer: none were seen"
	}
	return fmt.Sprintf("way of every %dth buffer from producer to consumer: 50 %% in %s, 99 %% in %s, of %s with %s on average",
		probe.Every, duration(quantile(h.Latency, 0.5)), duration(quantile(h.Latency, 0.99)),
		units.Plural(int(n), "buffer"), units.FormatBytes(int64(h.Bytes/h.Buffers)))
}

func overheadLine(o results.Overhead) string {
	cost := fmt.Sprintf("the probes add %.1f %%", o.CostPercent)
	if o.Metric.Better() == results.HigherIsBetter {
		cost = fmt.Sprintf("the probes cost %.1f %%", o.CostPercent)
	}
	switch {
	case o.P >= 1:
		cost = "it takes more rounds to tell what the probes cost"
	case !o.IsKnown():
		cost = "what the probes cost is within the noise of the rounds"
	case o.CostPercent < 0:
		cost = "the probes cost nothing that could be measured"
	}
	return fmt.Sprintf("%s: %s, %s with them, %s without", o.Metric.Unit(), cost, o.Metric.Format(o.With),
		o.Metric.Format(o.Without))
}

// number writes a count with three significant digits.
func number(v float64) string {
	switch size := math.Abs(v); {
	case v == 0:
		return "0"
	case size >= 999.5:
		return units.GroupDigits(int64(math.Round(min(v, math.MaxInt32<<20))))
	case size < 1e-5:
		return strconv.FormatFloat(v, 'e', 2, 64)
	default:
		digits := 2 - int(math.Floor(math.Log10(size)))
		return strconv.FormatFloat(v, 'f', max(0, digits), 64)
	}
}

// duration writes one in a unit that fits.
func duration(d time.Duration) string {
	ns := float64(d)
	for _, unit := range []struct {
		name string
		ns   float64
	}{{"s", 1e9}, {"ms", 1e6}, {"µs", 1e3}} {
		if ns >= unit.ns {
			return strconv.FormatFloat(ns/unit.ns, 'g', 3, 64) + " " + unit.name
		}
	}
	return fmt.Sprintf("%d ns", d)
}
