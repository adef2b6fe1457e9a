package bench

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"shuffled/bench/results"
)

const (
	// scaleRest is for how long nothing flows before processor time is measured.
	scaleRest    = time.Second
	leakPatience = 10 * time.Second
)

// A scaleWatch measures what a daemon and its workers take while everything is
// attached and nothing flows. It is the Observer of the round, and passes all
// calls on to another one. One goroutine uses it. Where the daemon cannot be looked
// at, it measures nothing of it.
type scaleWatch struct {
	ctx  context.Context // of the round
	pid  int
	idle time.Duration
	next Observer // nil for none
	show func(what string)

	// patience is how long the daemon may take to give back what its clients had.
	patience time.Duration

	before  *daemonUse // nil if the daemon cannot be looked at
	figures results.Round
}

// A daemonUse is what a daemon has, as of one look.
type daemonUse struct {
	processUse
	objects int
	shared  int64 // bytes of shared memory
}

func lookAtDaemon(pid int) (*daemonUse, error) {
	objects, err := sharedObjects(pid)
	if err != nil {
		return nil, err
	}
	process, err := useOf(pid)
	if err != nil {
		return nil, err
	}
	u := &daemonUse{processUse: process, objects: len(objects)}
	for _, o := range objects {
		u.shared += o.backed
	}
	return u, nil
}

func newScaleWatch(ctx context.Context, pid int, idle time.Duration, next Observer) *scaleWatch {
	w := &scaleWatch{ctx: ctx, pid: pid, idle: idle, next: next, show: func(string) {}, patience: leakPatience,
		figures: results.Round{}}
	w.before, _ = lookAtDaemon(pid)
	return w
}

// Begin implements Observer.
func (w *scaleWatch) Begin(s results.Settings, processes []Process) error {
	if err := w.sleep(scaleRest); err != nil {
		return err
	}
	processes = slices.DeleteFunc(slices.Clone(processes), func(p Process) bool { return p.PID == 0 })
	var cpu [2][]time.Duration
	for i := range cpu {
		for _, p := range processes {
			n, err := processorTimeOf(p.PID)
			if err != nil {
				return err
			}
			cpu[i] = append(cpu[i], n)
		}
		if i == 0 {
			if err := w.sleep(w.idle); err != nil {
				return err
			}
		}
	}
	for i, p := range processes {
		cores := (cpu[1][i] - cpu[0][i]).Seconds() / w.idle.Seconds()
		if p.Role == Daemon {
			w.figures[results.DaemonIdleCores] = cores
			continue
		}
		w.figures[results.WorkerIdleCores] += cores
		use, err := useOf(p.PID)
		if err != nil {
			return err
		}
		w.figures[results.WorkerMemory] += float64(use.memory)
		w.figures[results.WorkerThreads] = max(w.figures[results.WorkerThreads], float64(use.threads))
	}
	if w.before != nil {
		now, err := lookAtDaemon(w.pid)
		if err != nil {
			return err
		}
		w.figures[results.SharedMemory] = float64(now.shared - w.before.shared)
		w.figures[results.DaemonMemory] = float64(now.memory)
		w.figures[results.DaemonFiles] = float64(now.files)
		w.figures[results.DaemonThreads] = float64(now.threads)
	}
	if w.next == nil {
		return nil
	}
	return w.next.Begin(s, processes)
}

// sleep waits for a time while it shows that nothing flows.
func (w *scaleWatch) sleep(d time.Duration) error {
	for end := time.Now().Add(d); time.Now().Before(end); {
		w.show("all attached, idle")
		select {
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		case <-time.After(min(time.Until(end), time.Second)):
		}
	}
	return nil
}

// Stop implements Observer.
func (w *scaleWatch) Stop() error {
	if w.next == nil {
		return nil
	}
	return w.next.Stop()
}

// End implements Observer.
func (w *scaleWatch) End(payload int64) (results.Round, error) {
	if w.next == nil {
		return w.figures, nil
	}
	seen, err := w.next.End(payload)
	maps.Copy(w.figures, seen)
	return w.figures, err
}

// awaitBaseline waits until the daemon has no more descriptors and shared memory
// than before, and enters what it has then. It returns ErrLeak if that does not
// come.
func (w *scaleWatch) awaitBaseline(r results.Round) error {
	if w.before == nil {
		return nil
	}
	for end := time.Now().Add(w.patience); ; {
		now, err := lookAtDaemon(w.pid)
		if err != nil {
			return err
		}
		if now.files <= w.before.files && now.objects <= w.before.objects && now.shared <= w.before.shared {
			r[results.DaemonMemoryAfter] = float64(now.memory)
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d descriptors, %d shared objects and %d bytes of them more than before, after %v: %w",
				now.files-w.before.files, now.objects-w.before.objects, now.shared-w.before.shared, w.patience, ErrLeak)
		}
		select {
		case <-w.ctx.Done():
			return context.Cause(w.ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
