package memseg

import (
	"sync"
	"time"
)

// maxParkedThreads is how many goroutines of a process may sleep in a futex call
// at a time, each holding an OS thread.
const maxParkedThreads = 16

var threadTokens = make(chan struct{}, maxParkedThreads)

// The watcher looks at its words at these intervals: the shorter after a change,
// the longer when nothing has changed for as long as that.
const (
	watchFast = 200 * time.Microsecond
	watchSlow = 20 * time.Millisecond
)

// A watcher wakes goroutines whose futex words change, by looking at all of
// them. Its goroutine runs while anything is watched.
type watcher struct {
	mu      sync.Mutex
	entries map[*watchEntry]struct{}
	running bool
}

type watchEntry struct {
	word    *Word32
	value   uint32
	changed chan struct{}
}

var parkedWatcher watcher

// wait blocks until *w differs from value or the timeout passes.
func (p *watcher) wait(w *Word32, value uint32, timeout time.Duration) {
	e := &watchEntry{word: w, value: value, changed: make(chan struct{})}
	p.mu.Lock()
	if p.entries == nil {
		p.entries = make(map[*watchEntry]struct{})
	}
	p.entries[e] = struct{}{}
	if !p.running {
		p.running = true
		go p.run()
	}
	p.mu.Unlock()

	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-e.changed:
	case <-timer.C:
	}
	p.mu.Lock()
	delete(p.entries, e)
	p.mu.Unlock()
}

func (p *watcher) run() {
	interval := watchFast
	for {
		time.Sleep(interval)
		p.mu.Lock()
		if len(p.entries) == 0 {
			p.running = false
			p.mu.Unlock()
			return
		}
		woken := 0
		for e := range p.entries {
			if e.word.Load() != e.value {
				delete(p.entries, e)
				close(e.changed)
				woken++
			}
		}
		p.mu.Unlock()
		if woken > 0 {
			interval = watchFast
		} else {
			interval = min(interval*2, watchSlow)
		}
	}
}
