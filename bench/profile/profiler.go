package profile

import (
	"errors"

	"shuffled/bench"
	"shuffled/bench/results"
)

// The values of results.Settings.Probes.
const (
	probesOn  = "on"
	probesOff = "off"
)

// A Profiler observes a workload. One goroutine uses it, from New to Close.
type Profiler struct {
	source source
	// probes tells whether the source has something in the kernel that costs time.
	probes   bool
	compares bool
	rounds   map[results.Settings]*rounds
	current  *rounds          // of the round that runs
	seen     *results.Profile // of the round that has stopped, nil if it was not watched
}

// rounds are those of one measurement.
type rounds struct {
	begun   int
	watched []bool // by round that has ended
	profile *results.Profile
}

var _ bench.Observer = (*Profiler)(nil)

// New returns a profiler. If compared is set and there are probes, it leaves every
// second round of a measurement alone, to find out what they cost. Close it after
// use.
func New(o Options, compared bool) (*Profiler, error) {
	s, err := o.source()
	if err != nil {
		return nil, err
	}
	return newProfiler(s, compared), nil
}

func newProfiler(s source, compared bool) *Profiler {
	_, probes := s.(*kernelSource)
	return &Profiler{source: s, probes: probes, compares: compared && probes,
		rounds: make(map[results.Settings]*rounds)}
}

// Compares returns whether every second round is left alone, so that there should
// be twice as many.
func (p *Profiler) Compares() bool { return p.compares }

// Unsupported returns why eBPF does not count, "" if it does.
func (p *Profiler) Unsupported() string {
	if s, ok := p.source.(*procSource); ok {
		return s.why
	}
	return ""
}

// Close ends what the profiler does.
func (p *Profiler) Close() { p.source.close() }

// Begin watches the processes of a round, if it is one to be watched.
func (p *Profiler) Begin(s results.Settings, processes []bench.Process) error {
	p.source.close() // the round before may have failed
	p.current, p.seen = p.rounds[s], nil
	if p.current == nil {
		p.current = &rounds{}
		p.rounds[s] = p.current
	}
	p.current.begun++
	if !p.watches(p.current.begun) {
		return nil
	}
	return p.source.begin(processes)
}

// watches returns whether the nth round of a measurement is watched. Every second
// pair of rounds is the other way round, so that a machine that gets slower does
// so for both kinds.
func (p *Profiler) watches(n int) bool { return !p.compares || n%4 == 2 || n%4 == 3 }

// Stop reads what the processes of the round did.
func (p *Profiler) Stop() (err error) {
	if p.current == nil || !p.watches(p.current.begun) {
		return nil
	}
	p.seen, err = p.source.end()
	return err
}

// End returns what producers and consumers did for each byte of payload.
func (p *Profiler) End(payload int64) (results.Round, error) {
	if p.current == nil {
		return nil, errors.New("no round has begun")
	}
	p.current.watched = append(p.current.watched, p.seen != nil)
	if p.seen == nil {
		return nil, nil
	}
	p.seen.PayloadBytes = payload
	r := perByte(p.seen)
	if p.current.profile == nil {
		p.current.profile = p.seen
	} else {
		p.current.profile.Add(p.seen)
	}
	p.seen = nil
	return r, nil
}

func perByte(p *results.Profile) results.Round {
	r := results.Round{}
	if p.PayloadBytes <= 0 {
		return r
	}
	add := func(metric results.Metric, unit float64, figures ...results.Figure) {
		total := 0.0
		for _, role := range p.Roles {
			if role.Role == string(bench.Daemon) {
				continue
			}
			for _, figure := range figures {
				v, ok := role.Figures[figure]
				if !ok {
					return
				}
				total += v
			}
		}
		r[metric] = total * unit / float64(p.PayloadBytes)
	}
	add(results.CopiedPerByte, 1, results.CopiedFromUser, results.CopiedToUser)
	add(results.SystemCallsPerMiB, 1<<20, results.SystemCalls)
	add(results.WakeupsPerMiB, 1<<20, results.Woken)
	return r
}

// Finish adds the profiles to what the workload measured. Rounds that were watched
// and rounds that were left alone become measurements of their own.
func (p *Profiler) Finish(f *results.File) {
	var all []*results.Measurement
	for _, m := range f.Results {
		seen := p.rounds[m.Settings]
		if seen == nil || seen.profile == nil {
			all = append(all, m)
			continue
		}
		on, off := *m, *m
		on.Profile = seen.profile
		if p.probes {
			on.Probes, off.Probes = probesOn, probesOff
		}
		if p.compares {
			on.Rounds, off.Rounds = split(m.Rounds, seen.watched)
			// Those are of all rounds together.
			on.Percentiles, off.Percentiles = nil, nil
			on.Profile.Overheads = results.NewOverheads(on.Rounds, off.Rounds)
			all = append(all, &off)
		}
		all = append(all, &on)
	}
	f.Results = all
	f.Summarise()
}

// split returns the rounds that were watched, and the others.
func split(all []results.Round, watched []bool) (on, off []results.Round) {
	for i, round := range all {
		if i < len(watched) && watched[i] {
			on = append(on, round)
		} else {
			off = append(off, round)
		}
	}
	return on, off
}
