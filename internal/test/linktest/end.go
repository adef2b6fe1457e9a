package linktest

import "sync"

// An end is what is left to do when a test is over: first all parties close,
// then it is checked that nothing of theirs is left.
type end struct {
	mu      sync.Mutex
	closers []func()
	checks  []func()
}

var (
	endsMu sync.Mutex
	ends   = make(map[TB]*end)
)

// atEnd returns the end of a test.
func atEnd(t TB) *end {
	endsMu.Lock()
	defer endsMu.Unlock()
	e := ends[t]
	if e == nil {
		e = &end{}
		ends[t] = e
		t.Cleanup(func() {
			endsMu.Lock()
			delete(ends, t)
			endsMu.Unlock()
			for _, f := range e.closers {
				f()
			}
			for _, f := range e.checks {
				f()
			}
		})
	}
	return e
}

func (e *end) close(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closers = append(e.closers, f)
}

func (e *end) check(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checks = append(e.checks, f)
}
