package profile

import (
	"errors"
	"fmt"
	"os"
	"time"

	"shuffled/bench"
	"shuffled/bench/results"
	"shuffled/internal/bpf"
)

// A counter is a bpf.Tracer, or what tests recorded of one.
type counter interface {
	Watch(pid int, role bpf.Role) error
	Unwatch(pid int) error
	Counts() (bpf.Counts, error)
	Missing() []bpf.Missing
	Close() error
}

// A kernelSource counts by eBPF. Its programs are attached from begin to end
// only, so that rounds in between run without them.
type kernelSource struct {
	open func() (counter, error)

	counter   counter // nil outside of a round
	processes []bench.Process
	slots     map[bench.Role]bpf.Role
	notes     []string
	before    bpf.Counts
}

func (s *kernelSource) begin(processes []bench.Process) (err error) {
	s.close()
	s.processes, s.notes = known(processes)
	if s.slots, err = slots(s.processes); err != nil {
		return err
	}
	if s.counter, err = s.open(); err != nil {
		s.counter = nil
		return fmt.Errorf("count by eBPF: %w: --no-bpf does without", err)
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	for _, p := range s.processes {
		if err := s.counter.Watch(p.PID, s.slots[p.Role]); err != nil {
			return fmt.Errorf("watch %s, process %d: %w", p.Role, p.PID, err)
		}
		if p.PID == os.Getpid() {
			s.notes = append(s.notes,
				fmt.Sprintf("the %s is within bench itself, so that its figures have what bench did too", p.Role))
		}
	}
	if s.before, err = s.counter.Counts(); err != nil {
		return fmt.Errorf("read counts: %w", err)
	}
	return nil
}

func (s *kernelSource) look() {}

func (s *kernelSource) forget(p bench.Process) {
	_ = s.counter.Unwatch(p.PID) // the worst is that another process is counted
}

func (s *kernelSource) end() (*results.Profile, error) {
	if s.counter == nil {
		return nil, errors.New("nothing is being counted")
	}
	defer s.close()
	after, err := s.counter.Counts()
	if err != nil {
		return nil, fmt.Errorf("read counts: %w", err)
	}
	p := newProfile(results.FromBPF, s.processes, s.before.Taken)
	p.Seconds = after.Taken.Sub(s.before.Taken).Seconds()
	counted := after.Sub(s.before)
	p.CopySource = copySources[counted.CopySource]
	p.Handoff = handoff(counted.Handoff)
	for i := range p.Roles {
		role := &p.Roles[i]
		slot := s.slots[bench.Role(role.Role)]
		role.WakeLatency = histogram(counted.Roles[slot].WakeLatency)
		s.fill(role.Figures, &counted, slot)
	}
	for _, m := range s.counter.Missing() {
		p.Missing = append(p.Missing, results.Missing{What: m.Part, Why: sentence(m.Err)})
	}
	p.Notes, p.Skipped = s.notes, counted.Skipped
	return p, nil
}

func (s *kernelSource) close() {
	if s.counter != nil {
		_ = s.counter.Close() // it has been read, or is given up
		s.counter = nil
	}
}

// CheckRoles returns an error if the roles of some processes cannot be told apart.
func CheckRoles(processes []bench.Process) error {
	_, err := slots(processes)
	return err
}

// slots gives each role one of those that the programs tell apart. A worker gets
// one that is free.
func slots(processes []bench.Process) (map[bench.Role]bpf.Role, error) {
	fixed := map[bench.Role]bpf.Role{bench.Producer: bpf.Producer, bench.Consumer: bpf.Consumer,
		bench.Daemon: bpf.Daemon}
	taken := make(map[bench.Role]bpf.Role)
	var worker bool
	for _, p := range processes {
		slot, ok := fixed[p.Role]
		switch {
		case ok:
			taken[p.Role] = slot
		case p.Role == Worker:
			worker = true
		default:
			return nil, fmt.Errorf("process %d has the unknown role %q", p.PID, p.Role)
		}
	}
	if !worker {
		return taken, nil
	}
	for _, role := range []bench.Role{bench.Producer, bench.Consumer, bench.Daemon} {
		if _, ok := taken[role]; !ok {
			taken[Worker] = fixed[role]
			return taken, nil
		}
	}
	return nil, errors.New("processes without a role cannot be told apart beside a producer, a consumer and a daemon: give all of them one")
}

// roleOf returns the name of the role that has a slot.
func (s *kernelSource) roleOf(slot bpf.Role) string {
	for role, its := range s.slots {
		if its == slot {
			return string(role)
		}
	}
	return otherRole
}

// otherRole stands for all processes that are not observed.
const otherRole = "other"

var copySources = map[bpf.CopySource]string{
	bpf.CopyFunctions: "what the kernel's copy functions copied",
	bpf.CopyRequests:  "what the kernel's copy functions were asked to copy",
	bpf.CopyReturns:   "what system calls say that they moved, copied or not",
}

// fill adds the figures of one role.
func (s *kernelSource) fill(f results.Figures, all *bpf.Counts, slot bpf.Role) {
	c := &all.Roles[slot]
	if c.Syscalls != nil {
		f[results.SystemCalls] = float64(c.Syscalls.Total())
		for number, calls := range c.Syscalls {
			if calls > 0 {
				f[results.SystemCalls.Part(bpf.SyscallName(number))] = float64(calls)
			}
		}
	}
	if c.Copied != nil {
		f[results.CopiedFromUser], f[results.CopiedToUser] = float64(c.Copied.FromUser), float64(c.Copied.ToUser)
	}
	for kind, traffic := range c.Channels {
		if traffic != nil {
			name := bpf.Channel(kind).String()
			addPart(f, results.InCalls, name, traffic.In.Calls)
			addPart(f, results.InBytes, name, traffic.In.Bytes)
			addPart(f, results.OutCalls, name, traffic.Out.Calls)
			addPart(f, results.OutBytes, name, traffic.Out.Bytes)
		}
	}
	if c.Switches != nil {
		f[results.VoluntarySwitches], f[results.InvoluntarySwitches] = float64(c.Switches.Voluntary),
			float64(c.Switches.Involuntary)
		for reason, stay := range c.Switches.OffCPU {
			addPart(f, results.OffCPU, bpf.OffCPUReason(reason).String(), stay.Time.Seconds())
		}
	}
	if c.Futex != nil {
		f[results.SharedFutexWaits], f[results.SharedFutexWakes] = float64(c.Futex.Shared.Waits),
			float64(c.Futex.Shared.Wakes)
		f[results.PrivateFutexWaits], f[results.PrivateFutexWakes] = float64(c.Futex.Private.Waits),
			float64(c.Futex.Private.Wakes)
	}
	if c.Faults != nil {
		f[results.PageFaults] = float64(c.Faults.User + c.Faults.Kernel)
		f[results.MajorFaults], f[results.FirstTouches] = float64(c.Faults.Major), float64(c.Faults.FirstTouches)
	}
	if all.Wakes != nil {
		for other := range bpf.Role(bpf.Roles) {
			addPart(f, results.Woken, s.roleOf(other), all.Wakes[other][slot])
		}
		addPart(f, results.Woke, otherRole, all.Wakes[slot][bpf.Other])
	}
}

// addPart adds a part to a figure, and to its whole.
func addPart[T uint64 | float64](f results.Figures, whole results.Figure, name string, v T) {
	f[whole] += float64(v)
	f[whole.Part(name)] += float64(v)
}

func histogram(h *bpf.Histogram) results.Histogram {
	if h == nil {
		return nil
	}
	used := len(h.Buckets)
	for used > 1 && h.Buckets[used-1] == 0 {
		used--
	}
	return append(results.Histogram{}, h.Buckets[:used]...)
}

func handoff(h *bpf.Handoff) *results.Handoff {
	if h == nil {
		return nil
	}
	return &results.Handoff{
		Buffers: float64(h.Consumed), Bytes: float64(h.ConsumedBytes), Latency: histogram(&h.Latency),
		Missed: float64(h.Missed),
	}
}

// quantile returns the duration that a share of a histogram does not exceed.
func quantile(h results.Histogram, q float64) time.Duration {
	var buckets bpf.Histogram
	copy(buckets.Buckets[:], h)
	return buckets.Quantile(q)
}
