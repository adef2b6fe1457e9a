package profile

import (
	"errors"
	"fmt"
	"time"

	"shuffled/bench"
	"shuffled/bench/results"
	"shuffled/internal/bpf"
)

// Worker is the role of a process of which nothing else is known.
const Worker bench.Role = "worker"

// A source counts what processes do, one round at a time. After an error it can
// begin again.
type source interface {
	// begin counts from now on.
	begin(processes []bench.Process) error
	// look notes what could not be known any more when a process has ended.
	look()
	// forget stops counting a process that has ended, whose number may soon be
	// another's. What was counted of it stays.
	forget(p bench.Process)
	// end returns what was counted since begin.
	end() (*results.Profile, error)
	// close ends counting, also in a round.
	close()
}

// Options say how to count.
type Options struct {
	// NoBPF has the files of /proc read, though eBPF may be possible.
	NoBPF bool
	// Executable is the program of the processes, for the time that their buffers
	// take; "" for none. It costs a moment for each buffer that package probe marks.
	Executable string
}

// source returns the best source there is.
func (o Options) source() (source, error) {
	if o.NoBPF {
		return newProcSource(procFolder, "eBPF was not wanted"), nil
	}
	open := func() (counter, error) {
		return bpf.Open(bpf.Options{Executable: o.Executable})
	}
	trial, err := open()
	switch {
	case errors.Is(err, bpf.ErrUnsupported):
		return newProcSource(procFolder, err.Error()), nil
	case err != nil:
		return nil, fmt.Errorf("count by eBPF: %w: --no-bpf does without", err)
	}
	if err := trial.Close(); err != nil {
		return nil, fmt.Errorf("count by eBPF: %w: --no-bpf does without", err)
	}
	return &kernelSource{open: open}, nil
}

// known returns the processes with a PID, and a note on each of the others.
func known(processes []bench.Process) (with []bench.Process, notes []string) {
	for _, p := range processes {
		if p.PID > 0 {
			with = append(with, p)
		} else {
			notes = append(notes, fmt.Sprintf("the %s was not observed: its process is not known", p.Role))
		}
	}
	return with, notes
}

// newProfile returns a profile with a part without figures for each role, in the
// order they first come in.
func newProfile(from results.ProfileSource, processes []bench.Process, begun time.Time) *results.Profile {
	p := &results.Profile{Source: from, Seconds: time.Since(begun).Seconds()}
	for _, process := range processes {
		role := p.Role(string(process.Role))
		if role == nil {
			p.Roles = append(p.Roles, results.RoleProfile{Role: string(process.Role), Figures: results.Figures{}})
			role = &p.Roles[len(p.Roles)-1]
		}
		role.Processes++
	}
	return p
}
