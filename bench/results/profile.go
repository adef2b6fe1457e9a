package results

import (
	"cmp"
	"maps"
	"slices"
	"strings"
)

// A Profile is what the kernel did for the processes of a measurement, in all its
// rounds together: in each from when the workers began until the last of them had
// done its work. What was not measured is absent, never zero.
type Profile struct {
	Source  ProfileSource `json:"source"`
	Seconds float64       `json:"seconds"`
	// PayloadBytes are those of the records that got to consumers, 0 if not known.
	PayloadBytes int64         `json:"payload_bytes,omitempty"`
	Roles        []RoleProfile `json:"roles"`
	// CopySource says what the numbers of bytes copied are.
	CopySource string `json:"copy_source,omitempty"`
	// Handoff is the way of buffers through shared memory.
	Handoff *Handoff `json:"handoff,omitempty"`
	// Overheads are what counting itself costs.
	Overheads []Overhead `json:"overheads,omitempty"`
	// Skipped counts events that came while another one was being counted, and may
	// be missing in some figure.
	Skipped uint64 `json:"skipped_events,omitempty"`
	// Missing is what was not measured, and why.
	Missing []Missing `json:"missing,omitempty"`
	// Notes are what one must know to read the figures.
	Notes []string `json:"notes,omitempty"`
}

// A ProfileSource is what counted.
type ProfileSource string

// The sources.
const (
	FromBPF  ProfileSource = "ebpf" // programs in the kernel
	FromProc ProfileSource = "proc" // the files of /proc, which tell less
)

// A RoleProfile is the part of a profile of all processes with one role.
type RoleProfile struct {
	Role      string  `json:"role"`
	Processes int     `json:"processes"`
	Figures   Figures `json:"figures"`
	// WakeLatency is the time from a wake-up until the thread runs.
	WakeLatency Histogram `json:"wake_latency_log2_ns,omitempty"`
}

// Figures are counts by name.
type Figures map[Figure]float64

// A Figure is the name of something that is counted. Some consist of parts, whose
// names follow a slash: "system_calls" has the part "system_calls/futex". A part
// that is absent while its figure is there is zero.
type Figure string

// The figures. Those with parts say so.
const (
	SystemCalls Figure = "system_calls" // parts: their names
	// ReadWriteCalls are only the system calls that read or write.
	ReadWriteCalls Figure = "read_write_calls"

	CopiedFromUser Figure = "copied_from_user_bytes"
	CopiedToUser   Figure = "copied_to_user_bytes"

	// What went in and out by descriptors; parts: the kinds of kernel objects.
	InCalls  Figure = "in_calls"
	InBytes  Figure = "in_bytes"
	OutCalls Figure = "out_calls"
	OutBytes Figure = "out_bytes"

	VoluntarySwitches   Figure = "voluntary_switches"
	InvoluntarySwitches Figure = "involuntary_switches"
	// OffCPU is the time that threads were not on a core, in seconds, of all threads
	// together; parts: the reasons.
	OffCPU Figure = "off_cpu_s"

	// Woken counts wake-ups of a role by all, Woke those by it of processes without a
	// role; parts: the roles of the others.
	Woken Figure = "woken"
	Woke  Figure = "woke"

	// Shared futexes are those between processes, private ones those within one, in
	// a Go program the runtime's.
	SharedFutexWaits  Figure = "futex_shared_waits"
	SharedFutexWakes  Figure = "futex_shared_wakes"
	PrivateFutexWaits Figure = "futex_private_waits"
	PrivateFutexWakes Figure = "futex_private_wakes"

	PageFaults  Figure = "page_faults"
	MajorFaults Figure = "major_faults"
	// FirstTouches are page faults in the shared memory of the shuffle.
	FirstTouches Figure = "first_touches"
)

// Part returns the name of a part.
func (f Figure) Part(name string) Figure { return f + "/" + Figure(name) }

// Parts returns the names of the parts of a figure that are not zero, the largest
// first.
func (f Figures) Parts(whole Figure) []string {
	var names []string
	for figure, v := range f {
		if name, ok := strings.CutPrefix(string(figure), string(whole)+"/"); ok && v != 0 {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(f[whole.Part(b)], f[whole.Part(a)]), strings.Compare(a, b))
	})
	return names
}

// Add adds the figures that are in both.
func (f Figures) Add(other Figures) {
	measured := func(in Figures, figure Figure) bool {
		whole, _, _ := strings.Cut(string(figure), "/")
		_, ok := in[Figure(whole)]
		return ok
	}
	for figure, v := range other {
		if measured(f, figure) {
			f[figure] += v
		}
	}
	maps.DeleteFunc(f, func(figure Figure, _ float64) bool { return !measured(other, figure) })
}

// A Histogram counts durations: element i those from 2^i to 2^(i+1)-1
// nanoseconds, the first one also those of 0.
type Histogram []uint64

// Count returns how many durations were counted.
func (h Histogram) Count() (n uint64) {
	for _, count := range h {
		n += count
	}
	return n
}

func (h Histogram) add(other Histogram) Histogram {
	sum := make(Histogram, max(len(h), len(other)))
	copy(sum, h)
	for i, n := range other {
		sum[i] += n
	}
	return sum
}

// A Handoff is the way of buffers from producers to consumers: of those that
// package probe marks.
type Handoff struct {
	Buffers float64 `json:"buffers"`
	Bytes   float64 `json:"bytes"`
	// Latency is from publishing to consuming.
	Latency Histogram `json:"latency_log2_ns,omitempty"`
	// Missed counts buffers that were not seen to be published.
	Missed float64 `json:"missed,omitempty"`
}

// A Missing is something that was not measured.
type Missing struct {
	What string `json:"what"`
	Why  string `json:"why"`
}

// Add adds the profile of another round. A figure that one of the two does not
// have is not in the sum.
func (p *Profile) Add(q *Profile) {
	p.Seconds += q.Seconds
	p.PayloadBytes += q.PayloadBytes
	p.Skipped += q.Skipped
	switch {
	case p.Handoff == nil || q.Handoff == nil:
		p.Handoff = nil
	default:
		p.Handoff.Buffers += q.Handoff.Buffers
		p.Handoff.Bytes += q.Handoff.Bytes
		p.Handoff.Missed += q.Handoff.Missed
		p.Handoff.Latency = p.Handoff.Latency.add(q.Handoff.Latency)
	}
	for i := range p.Roles {
		if other := q.Role(p.Roles[i].Role); other != nil {
			p.Roles[i].add(other)
		}
	}
	p.Missing, p.Notes = union(p.Missing, q.Missing), union(p.Notes, q.Notes)
}

func (r *RoleProfile) add(other *RoleProfile) {
	r.Processes = max(r.Processes, other.Processes)
	r.Figures.Add(other.Figures)
	if r.WakeLatency != nil && other.WakeLatency != nil {
		r.WakeLatency = r.WakeLatency.add(other.WakeLatency)
	} else {
		r.WakeLatency = nil
	}
}

func union[T comparable](a, b []T) []T {
	for _, v := range b {
		if !slices.Contains(a, v) {
			a = append(a, v)
		}
	}
	return a
}

// Role returns the part of a role, or nil.
func (p *Profile) Role(name string) *RoleProfile {
	for i := range p.Roles {
		if p.Roles[i].Role == name {
			return &p.Roles[i]
		}
	}
	return nil
}
