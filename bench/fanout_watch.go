package bench

import (
	"maps"
	"time"

	"shuffled/bench/results"
)

// A fanoutWatch measures the shared memory and the wake-ups of a round, from the
// objects that the daemon has for it. It is the Observer of the round, and passes
// all calls on to another one. One goroutine uses it. Where the daemon cannot be
// looked at, it measures nothing.
type fanoutWatch struct {
	pid           int
	next          Observer // nil for none
	phases        fanoutPhases
	subpartitions int // of all producers

	before []sharedObject
	view   *sharedView // nil before the beginning, and if nothing can be seen
	begun  time.Time
	// Memory of the partitions, in bytes: before the first record, while nothing
	// flows after some, and at most; -1 while it is unknown.
	unused, idle, peak int64
	wakeUps            uint64
}

func newFanoutWatch(pid int, phases fanoutPhases, next Observer, subpartitions int) *fanoutWatch {
	w := &fanoutWatch{pid: pid, next: next, phases: phases, subpartitions: subpartitions, unused: -1, idle: -1,
		peak: -1}
	w.before, _ = sharedObjects(pid) // the second look fails as this one does
	return w
}

// Begin implements Observer.
func (w *fanoutWatch) Begin(s results.Settings, processes []Process) error {
	if view, err := viewShared(w.pid, w.before); err == nil {
		w.view = view
		w.unused = w.memory()
	}
	w.begun = time.Now()
	if w.next == nil {
		return nil
	}
	return w.next.Begin(s, processes)
}

// memory returns what the partitions have now, or -1.
func (w *fanoutWatch) memory() int64 {
	if w.view == nil {
		return -1
	}
	n, err := w.view.partitionBytes()
	if err != nil {
		return -1
	}
	w.peak = max(w.peak, n)
	return n
}

// sample looks at the memory. It is called now and then.
func (w *fanoutWatch) sample() {
	if w.view == nil {
		return
	}
	n := w.memory()
	_, _ = w.view.wakeUps() // for Stop, which may come after the daemon has dropped some
	from, to := w.phases.settled()
	if passed := time.Since(w.begun); passed > from && passed < to {
		w.idle = n
	}
}

// Stop implements Observer.
func (w *fanoutWatch) Stop() error {
	if w.view != nil {
		if n, err := w.view.wakeUps(); err == nil {
			w.wakeUps = n
		} else {
			w.close()
		}
	}
	if w.next == nil {
		return nil
	}
	return w.next.Stop()
}

// End implements Observer.
func (w *fanoutWatch) End(payload int64) (results.Round, error) {
	r := results.Round{}
	if w.view != nil {
		// A round may be over before the first look.
		if w.wakeUps > 0 {
			r[results.WakeupsPerMiB] = float64(w.wakeUps) / (float64(payload) / (1 << 20))
		}
		if gates := len(w.view.gates); gates > 0 {
			r[results.MemoryPerGate] = float64(w.view.gateBytes) / float64(gates)
		}
		for metric, n := range map[results.Metric]int64{
			results.UnusedPerSubpartition: w.unused, results.MemoryPerSubpartition: w.idle,
			results.PeakPerSubpartition: w.peak,
		} {
			if n >= 0 {
				r[metric] = float64(n) / float64(w.subpartitions)
			}
		}
	}
	if w.next == nil {
		return r, nil
	}
	seen, err := w.next.End(payload)
	maps.Copy(r, seen)
	return r, err
}

func (w *fanoutWatch) close() {
	if w.view != nil {
		w.view.close()
		w.view = nil
	}
}
