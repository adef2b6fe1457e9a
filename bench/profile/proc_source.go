package profile

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"shuffled/bench"
	"shuffled/bench/results"
)

// A procSource reads what /proc tells of processes. It counts at begin and at
// each look, so what a process did after the last look before its end is lost.
type procSource struct {
	files procFiles
	why   string // there is no better source
	begun time.Time
	all   []*observed // nil outside of a round
	notes []string
}

// An observed process.
type observed struct {
	bench.Process
	before, last procCounts
	ended        bool
}

func newProcSource(folder, why string) *procSource {
	return &procSource{files: procFiles{folder}, why: why}
}

func (s *procSource) begin(processes []bench.Process) error {
	processes, notes := known(processes)
	s.begun, s.notes, s.all = time.Now(), notes, []*observed{}
	for _, p := range processes {
		s.all = append(s.all, &observed{Process: p, before: s.files.counts(p.PID)})
	}
	s.look()
	return nil
}

func (s *procSource) look() {
	for _, p := range s.all {
		if !p.ended {
			p.last.update(s.files.counts(p.PID))
		}
	}
}

func (s *procSource) forget(process bench.Process) {
	for _, p := range s.all {
		p.ended = p.ended || p.Process == process
	}
}

func (s *procSource) end() (*results.Profile, error) {
	if s.all == nil {
		return nil, errors.New("nothing is being counted")
	}
	s.look()
	var processes []bench.Process
	for _, process := range s.all {
		processes = append(processes, process.Process)
	}
	p := newProfile(results.FromProc, processes, s.begun)
	p.CopySource = "what read and write say that they moved, copied or not, by /proc; without what goes by sendmsg and recvmsg"
	for i := range p.Roles {
		role := &p.Roles[i]
		role.Figures = s.figures(bench.Role(role.Role))
		var missing []string
		for _, figure := range slices.Sorted(maps.Keys(procFigures)) {
			if _, ok := role.Figures[figure]; !ok {
				missing = append(missing, string(figure))
			}
		}
		if len(missing) > 0 {
			p.Missing = append(p.Missing, results.Missing{
				What: fmt.Sprintf("%s of the %s", strings.Join(missing, ", "), role.Role),
				Why:  "what /proc says of it cannot be read: another user's process, or it ended at once",
			})
		}
	}
	p.Missing = append(p.Missing, results.Missing{
		What: "system calls, channels, time without a core, wake-ups and their latency, futexes, first touches, hand-offs", Why: s.why,
	})
	p.Notes = s.notes
	s.close()
	return p, nil
}

func (s *procSource) close() { s.all = nil }

// figures returns those of a role: each one that is known of all its processes.
func (s *procSource) figures(role bench.Role) (sum results.Figures) {
	for _, p := range s.all {
		if p.Role != role {
			continue
		}
		rise := p.last.since(p.before)
		if sum == nil {
			sum = rise
		} else {
			sum.Add(rise)
		}
	}
	return sum
}
