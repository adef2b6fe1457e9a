package registry

import "sync"

// An announcer guards state with a lock and calls out about changes of it after
// the lock is released, in the order in which they were made. One goroutine at a
// time does the calling, for all others too, so a callback that changes the
// state again does not nest and no two callbacks run at once.
type announcer struct {
	mu      sync.Mutex
	queue   []func()
	running bool
}

// tell queues a call for when the lock is released. The caller holds the lock.
func (a *announcer) tell(f func()) { a.queue = append(a.queue, f) }

// unlock releases the lock and makes the calls that are queued, unless another
// goroutine is at it: then that one makes them.
func (a *announcer) unlock() {
	if a.running || len(a.queue) == 0 {
		a.mu.Unlock()
		return
	}
	a.running = true
	for len(a.queue) > 0 {
		batch := a.queue
		a.queue = nil
		a.mu.Unlock()
		a.call(batch)
		a.mu.Lock()
	}
	a.running = false
	a.mu.Unlock()
}

// call makes the calls of a batch. A callback that panics does not stop those
// after it for good: they are queued again for the next who unlocks.
func (a *announcer) call(batch []func()) {
	done := 0
	defer func() {
		if done < len(batch) {
			a.mu.Lock()
			a.queue = append(batch[done+1:len(batch):len(batch)], a.queue...)
			a.running = false
			a.mu.Unlock()
		}
	}()
	for _, f := range batch {
		f()
		done++
	}
}
