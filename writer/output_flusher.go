package writer

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An outputFlusher wakes the consumers of one writer at an interval, so that a
// record never waits longer than that for its buffer to fill.
type outputFlusher struct {
	flush   func() error
	group   *flusherGroup
	failure atomic.Pointer[error]

	mu    sync.Mutex // held during a flush
	ended bool
	done  chan struct{} // closed when it has ended
}

// A flusherGroup is all flushers of the process with one interval. They share a
// goroutine: a thousand idle writers would spend more on timers than on looking
// whether there is something to flush.
type flusherGroup struct {
	interval time.Duration
	members  []*outputFlusher // guarded by flusherGroups.mu, copied on change
	empty    chan struct{}    // closed when the last one has left
}

// flusherGroups has the groups that have members.
var flusherGroups struct {
	mu         sync.Mutex
	byInterval map[time.Duration]*flusherGroup
}

func startFlusher(interval time.Duration, flush func() error) *outputFlusher {
	all := &flusherGroups
	all.mu.Lock()
	defer all.mu.Unlock()
	g := all.byInterval[interval]
	if g == nil {
		if all.byInterval == nil {
			all.byInterval = make(map[time.Duration]*flusherGroup)
		}
		g = &flusherGroup{interval: interval, empty: make(chan struct{})}
		all.byInterval[interval] = g
		go g.run()
	}
	f := &outputFlusher{flush: flush, group: g, done: make(chan struct{})}
	g.members = append(slices.Clip(g.members), f)
	return f
}

// run flushes until the group is empty.
func (g *flusherGroup) run() {
	ticker := time.NewTicker(g.interval)
	defer ticker.Stop()
	for {
		select {
		case <-g.empty:
			return
		case <-ticker.C:
			for _, f := range g.present() {
				f.tick()
			}
		}
	}
}

func (g *flusherGroup) present() []*outputFlusher {
	flusherGroups.mu.Lock()
	defer flusherGroups.mu.Unlock()
	return g.members
}

// remove takes a member out. Without any, the group is gone.
func (g *flusherGroup) remove(f *outputFlusher) {
	all := &flusherGroups
	all.mu.Lock()
	defer all.mu.Unlock()
	g.members = slices.DeleteFunc(slices.Clone(g.members), func(other *outputFlusher) bool { return other == f })
	if len(g.members) == 0 {
		delete(all.byInterval, g.interval)
		close(g.empty)
	}
}

// tick flushes once. An error ends the flusher.
func (f *outputFlusher) tick() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ended {
		return
	}
	if err := f.flush(); err != nil {
		err = fmt.Errorf("output flusher: %w", err)
		f.failure.Store(&err)
		f.end()
	}
}

// end takes the flusher out of its group; its lock is held.
func (f *outputFlusher) end() {
	f.ended = true
	f.group.remove(f)
	close(f.done)
}

// err returns why the flusher has ended by itself.
func (f *outputFlusher) err() error {
	if err := f.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// stop ends the flusher and waits for a flush that is under way.
func (f *outputFlusher) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.end()
	}
}
