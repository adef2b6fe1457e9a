package pool

// A signal is where goroutines wait for a condition over state that a lock
// guards. It does not store the condition, so the two cannot disagree: its owner
// passes what holds at the moment. All methods are called with that lock held;
// the channel that fire returns is closed after releasing it.
//
// It is the availability future of Flink. Waiting costs an allocation, changing
// the state does not.
type signal struct {
	waiters chan struct{} // nil while nobody waits
}

// always is what a wait for something that holds already returns.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// wait returns a channel that is closed when the condition holds: at once if it
// does now, else the same one for everybody who waits. After the channel is
// closed the condition may have changed again, so waiters must look.
func (s *signal) wait(holds bool) <-chan struct{} {
	if holds {
		return always
	}
	if s.waiters == nil {
		s.waiters = make(chan struct{})
	}
	return s.waiters
}

// fire returns the channel to close, or nil: there is one if the condition holds
// and somebody waits for it.
func (s *signal) fire(holds bool) chan struct{} {
	if !holds {
		return nil
	}
	waiters := s.waiters
	s.waiters = nil
	return waiters
}

// wakeUps are channels to close once a lock has been released; each may be nil.
type wakeUps [2]chan struct{}

func (w wakeUps) run() {
	for _, waiters := range w {
		if waiters != nil {
			close(waiters)
		}
	}
}
