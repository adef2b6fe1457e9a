package memseg

import (
	"fmt"
	"sync/atomic"
)

// MemorySegment is a page of fixed size: the unit in which pools hand out memory
// and in which records travel. The bytes are a slice of the Go heap or of a
// mapped region. The model is Flink's class of the same name; records are written
// and read through BufferBuilder and BufferConsumer, not by scalars of a segment.
//
// A segment does no locking. Free must come after every other call.
type MemorySegment struct {
	mem   []byte
	index int
	freed atomic.Bool
}

// NewSegment makes a segment of all of mem, which is not copied. Index is the
// number of the segment in its region.
//
// Who maps mem keeps it mapped for as long as the segment or its bytes are in use.
func NewSegment(mem []byte, index int) *MemorySegment {
	return &MemorySegment{mem: mem, index: index}
}

// Free ends the use of the segment and lets go of its memory; unmapping a region
// is left to the region. A second Free returns ErrFreed: it means that two places
// believe to own the segment. Of several goroutines that call it exactly one gets nil.
func (s *MemorySegment) Free() error {
	if !s.freed.CompareAndSwap(false, true) {
		return fmt.Errorf("free segment %d: can be freed only once: %w", s.index, ErrFreed)
	}
	s.mem = nil
	return nil
}

// Bytes returns the whole segment as a slice that shares its memory, or ErrFreed.
// The slice stays usable after Free for as long as the memory does: for ever on
// the heap, until the region is unmapped otherwise. It cannot grow into what lies
// behind the segment.
func (s *MemorySegment) Bytes() ([]byte, error) {
	if s.freed.Load() {
		return nil, fmt.Errorf("bytes of segment %d: %w", s.index, ErrFreed)
	}
	return s.mem[:len(s.mem):len(s.mem)], nil
}
