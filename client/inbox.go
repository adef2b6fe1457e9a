package client

import "sync"

// An inbox runs what it is given, one after another, on a goroutine of its own:
// so a notification that has to wait for a partition or a gate does not hold up
// the answers that whoever has it may be waiting for.
type inbox struct {
	mu     sync.Mutex
	change sync.Cond
	queue  []func()
	closed bool
}

func (i *inbox) init() { i.change.L = &i.mu }

// put queues a function.
func (i *inbox) put(f func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.queue = append(i.queue, f)
	i.change.Signal()
}

// close lets run return once everything is done.
func (i *inbox) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.closed = true
	i.change.Signal()
}

// run runs what is put, until close.
func (i *inbox) run() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for {
		for len(i.queue) == 0 {
			if i.closed {
				return
			}
			i.change.Wait()
		}
		batch := i.queue
		i.queue = nil
		i.mu.Unlock()
		for _, f := range batch {
			f()
		}
		i.mu.Lock()
	}
}
