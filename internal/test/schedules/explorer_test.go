//go:build race || schedules

package schedules

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"shuffled/memseg"
)

// A thread is a goroutine whose accesses to shared words the explorer orders.
type thread struct {
	name    string
	resume  chan struct{}
	sleeps  *memseg.Word32 // or nil
	ended   bool
	oneStep bool // the thread makes all its accesses in one step
}

func (t *thread) canRun() bool { return !t.ended && t.sleeps == nil }

// A choice is a point of a run at which another thread could have gone on.
type choice struct {
	taken, options int
	preempts       bool // options after the first take the turn from a thread that can run
}

// An explorer is memseg.Scheduler: exactly one of its threads runs at a time.
type explorer struct {
	threads []*thread
	current *thread
	off     atomic.Bool // the run is over: nobody is held back any more
	over    chan struct{}

	choices []choice // those before len(prefix) are given
	prefix  []int
	random  *rand.Rand // decides where prefix ends, if there is one
	trace   []string
}

// Access lets another thread go on, or not.
func (e *explorer) Access() {
	if e.off.Load() || e.current.oneStep {
		return
	}
	e.pass(e.current)
}

// Sleep puts the current thread to sleep.
func (e *explorer) Sleep(word *memseg.Word32, unchanged func() bool) bool {
	if e.off.Load() {
		return false
	}
	t := e.current
	if e.pass(t); unchanged() {
		t.sleeps = word
		e.pass(t)
	}
	return true
}

// Wake wakes the threads that sleep on a word.
func (e *explorer) Wake(word *memseg.Word32) bool {
	if e.off.Load() {
		return false
	}
	e.Access()
	for _, t := range e.threads {
		if t.sleeps == word {
			t.sleeps = nil
		}
	}
	return true
}

// pass gives the turn to the thread that is next, and returns when it is t's
// again. If nobody can go on, the run is over.
func (e *explorer) pass(t *thread) {
	var options []*thread
	if t.canRun() {
		options = append(options, t)
	}
	for _, other := range e.threads {
		if other != t && other.canRun() {
			options = append(options, other)
		}
	}
	if len(options) == 0 {
		close(e.over)
	} else {
		next := options[e.choose(len(options), t.canRun())]
		if next == t {
			return
		}
		e.trace = append(e.trace, next.name)
		e.current = next
		next.resume <- struct{}{}
	}
	if !t.ended {
		<-t.resume
	}
}

func (e *explorer) choose(options int, preempts bool) int {
	if options == 1 {
		return 0
	}
	taken := 0
	switch {
	case len(e.choices) < len(e.prefix):
		taken = min(e.prefix[len(e.choices)], options-1)
	case e.random != nil && (!preempts || e.random.IntN(4) == 0):
		taken = e.random.IntN(options)
	}
	e.choices = append(e.choices, choice{taken, options, preempts})
	return taken
}

// A run is one execution. Its programs stop when their context ends.
type run struct {
	threads []program
	// stop ends what is left when nobody can go on, and judge says what is wrong
	// with how it was left.
	judge func() error
	stop  func()
}

type program struct {
	name    string
	oneStep bool
	do      func()
}

// execute makes one run in the order that the prefix gives, and without it in
// order, or at random.
func execute(r run, prefix []int, random *rand.Rand) (*explorer, error) {
	e := &explorer{over: make(chan struct{}), prefix: prefix, random: random}
	var wg sync.WaitGroup
	for _, p := range r.threads {
		t := &thread{name: p.name, resume: make(chan struct{}), oneStep: p.oneStep}
		e.threads = append(e.threads, t)
		wg.Go(func() {
			<-t.resume
			p.do()
			if t.ended = true; !e.off.Load() {
				e.pass(t)
			}
		})
	}
	memseg.SetScheduler(e)
	defer memseg.SetScheduler(nil)
	e.current = e.threads[0]
	e.current.resume <- struct{}{}
	select {
	case <-e.over:
	case <-time.After(30 * time.Second):
		buf := make([]byte, 1<<20)
		return e, fmt.Errorf("a thread does not reach its next access:\n%s", buf[:runtime.Stack(buf, true)])
	}
	err := r.judge()
	e.off.Store(true)
	r.stop()
	for _, t := range e.threads {
		if !t.ended {
			t.sleeps = nil
			t.resume <- struct{}{}
		}
	}
	wg.Wait()
	return e, err
}

// next returns the prefix of the run after this one, in depth-first order, or
// nil. The runs have at most so many preemptions.
func (e *explorer) next(preemptions int) []int {
	used := make([]int, len(e.choices)+1)
	for i, c := range e.choices {
		used[i+1] = used[i]
		if c.preempts && c.taken > 0 {
			used[i+1]++
		}
	}
	for i := len(e.choices) - 1; i >= 0; i-- {
		c := e.choices[i]
		if c.taken+1 == c.options || c.preempts && c.taken == 0 && used[i] == preemptions {
			continue
		}
		prefix := make([]int, i+1)
		for j := range i {
			prefix[j] = e.choices[j].taken
		}
		prefix[i] = c.taken + 1
		return prefix
	}
	return nil
}

// explore makes all runs with at most so many preemptions, and then random ones.
// newRun sets up the next.
func explore(t *testing.T, preemptions, randomRuns int, random *rand.Rand, newRun func() (run, func())) {
	t.Helper()
	runs := 0
	one := func(prefix []int, random *rand.Rand) *explorer {
		r, cleanup := newRun()
		e, err := execute(r, prefix, random)
		if err != nil {
			t.Fatalf("run %d: %v\nturns: %s\nchoices: %v", runs, err, strings.Join(e.trace, ", "), e.choices)
		}
		cleanup()
		runs++
		return e
	}
	prefix := []int{}
	for prefix != nil {
		prefix = one(prefix, nil).next(preemptions)
	}
	t.Logf("%d runs with up to %d preemptions, and %d random ones", runs, preemptions, randomRuns)
	for range randomRuns {
		one(nil, random)
	}
}
