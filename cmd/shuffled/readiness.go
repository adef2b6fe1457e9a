package main

import (
	"maps"
	"slices"
	"sync"
)

// Readiness is whether the daemon takes new work, with the reasons why not. Its
// methods may be called from any number of goroutines.
type readiness struct {
	mu      sync.Mutex
	reasons map[string]bool
}

const (
	reasonStarting = "starting"
	reasonDraining = "draining"
	// What somebody did to the files of the socket.
	reasonSocketRemoved = "socket_removed"
	reasonLockRemoved   = "lock_removed"
)

func newReadiness() *readiness {
	return &readiness{reasons: map[string]bool{reasonStarting: true}}
}

func (r *readiness) add(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reasons[reason] = true
}

func (r *readiness) remove(reason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.reasons, reason)
}

// pending returns the reasons against it, sorted; none is ready.
func (r *readiness) pending() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.reasons))
}
