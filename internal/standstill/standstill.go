// Package standstill says when a wait that nobody watches over has lasted long enough.
package standstill

import "time"

// Grace is how long a wait may find nothing once the daemon is lost, which would have
// told it that its peer has died.
const Grace = 500 * time.Millisecond

// steps are how many pieces a grace is counted in.
const steps = 5

// Step is how long whoever waits may sleep between two looks. No more than that is
// counted of the time between them: a process that was stopped, or had no processor,
// has not waited meanwhile, and neither may its peer have had one.
func Step(grace time.Duration) time.Duration { return grace / steps }

// A Standstill counts for how long the looks of a wait have found nothing. Its zero
// value is ready for use, by one goroutine.
type Standstill struct {
	last   time.Time
	lasted time.Duration
}

// FoundNothing notes a look that has found nothing, and reports each time that a grace
// has passed in such looks.
func (s *Standstill) FoundNothing(now time.Time, grace time.Duration) bool {
	if !s.last.IsZero() {
		s.lasted += min(now.Sub(s.last), Step(grace))
	}
	s.last = now
	if s.lasted < steps*Step(grace) {
		return false
	}
	s.FoundSomething()
	return true
}

// FoundSomething begins anew.
func (s *Standstill) FoundSomething() { *s = Standstill{} }
