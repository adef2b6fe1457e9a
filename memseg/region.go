package memseg

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"shuffled/internal/opened"
)

// Access says what a mapping allows.
type Access uint8

const (
	// ReadOnly mappings fault on a store.
	ReadOnly Access = iota
	// ReadWrite mappings belong to the one process that writes the region.
	ReadWrite
)

func (a Access) String() string {
	if a == ReadWrite {
		return "read-write"
	}
	return "read-only"
}

// A Region is a span of memory that several processes may share: a mapping of a
// Memfd, or heap memory with the same behaviour for use inside one process,
// where the race detector can see it.
//
// A region is reference counted. Close drops the owner's reference, Release
// those taken by Retain; the memory is unmapped with the last one. Slices of it
// must not be used afterwards: what hands them out must hold a reference. A goroutine
// that does so nevertheless harms nobody: at the same addresses lies memory that is
// this process's alone, empty at first, for as long as the Region can be reached. A nil
// or zero region is one of no bytes that was closed.
type Region struct {
	name   string
	mem    []byte
	access Access
	heap   bool

	mu     sync.Mutex
	refs   int
	closed bool
}

var liveMappings atomic.Int64

// LiveMappings counts the mappings of this process that are not unmapped yet.
// Tests compare it before and after.
func LiveMappings() int64 { return liveMappings.Load() }

func newMappedRegion(name string, mem []byte, access Access) *Region {
	liveMappings.Add(1)
	r := &Region{name: name, mem: mem, access: access, refs: 1}
	opened.Mapping(r, name)
	return r
}

// NewHeapRegion returns a zeroed region in the Go heap, read-write.
func NewHeapRegion(name string, size int) *Region {
	return &Region{name: name, mem: alignedBytes(size), access: ReadWrite, heap: true, refs: 1}
}

// Name returns the name given at creation, for messages.
func (r *Region) Name() string {
	if r == nil {
		return ""
	}
	return r.name
}

// Size returns the number of bytes mapped.
func (r *Region) Size() int { return len(r.Bytes()) }

// Bytes returns the memory of the region, valid while the caller's reference is.
func (r *Region) Bytes() []byte {
	if r == nil {
		return nil
	}
	return r.mem
}

// Retain takes a reference, or returns ErrClosed after Close.
func (r *Region) Retain() error {
	if r == nil {
		return r.noReference()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.refs == 0 {
		return r.noReference()
	}
	r.refs++
	return nil
}

// Release gives a reference of Retain back. One release more than there were
// retains is ErrClosed and changes nothing.
func (r *Region) Release() error {
	if r == nil {
		return r.noReference()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.refs == 1 && !r.closed {
		return r.overReleased() // the last one is the owner's
	}
	return r.drop()
}

// Close drops the owner's reference. A second Close returns ErrClosed.
func (r *Region) Close() error {
	if r == nil {
		return r.noReference()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return r.noReference()
	}
	r.closed = true
	return r.drop()
}

func (r *Region) drop() error {
	if r.refs == 0 {
		return r.overReleased()
	}
	r.refs--
	if r.refs > 0 || r.heap {
		return nil
	}
	mem := r.mem
	r.mem = nil
	liveMappings.Add(-1)
	opened.Unmapped(r)
	if err := r.letGo(mem); err != nil {
		return fmt.Errorf("unmap region %q: %w", r.name, err)
	}
	return nil
}

// letGo ends the mapping and keeps its addresses from being used for anything else
// until the region cannot be reached. Where the kernel does not allow so much private
// memory (RLIMIT_DATA, vm.overcommit_memory=2), they are given up at once.
func (r *Region) letGo(mem []byte) error {
	if err := coverMapping(mem, r.access); err != nil {
		return unmap(mem)
	}
	runtime.AddCleanup(r, func(mem []byte) {
		_ = unmap(mem)
		coveredMappings.Add(-1)
	}, mem)
	if coveredMappings.Add(1)%mostCovered == 0 {
		runtime.GC() // a process has 65,530 mappings, and its garbage is not in proportion
	}
	return nil
}

// coveredMappings counts those of letGo that are still there, mostCovered how many
// come before they are looked for, whatever else the process allocates.
var coveredMappings atomic.Int64

const mostCovered = 1024

// findAddresses looks for addresses of closed regions that can be used again, and
// reports whether there may be some.
func findAddresses() bool {
	before := coveredMappings.Load()
	if before == 0 {
		return false
	}
	runtime.GC()
	// The clean-ups run in goroutines of their own, which others may keep from it.
	for range 20 {
		if coveredMappings.Load() < before {
			break
		}
		time.Sleep(time.Millisecond)
	}
	return true
}

func (r *Region) noReference() error { return fmt.Errorf("region %q: %w", r.Name(), ErrClosed) }

func (r *Region) overReleased() error {
	return fmt.Errorf("region %q released more often than retained: %w", r.name, ErrClosed)
}
