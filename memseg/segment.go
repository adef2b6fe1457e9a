package memseg

import (
	"fmt"
	"sync/atomic"
)

// MemorySegment is a page of fixed size: the unit in which pools hand out memory
// and in which records travel. The bytes are a slice of the Go heap or of a
// mapped region; the code is the same for both. The model, its operations and
// the rules of its bounds are those of Flink's class of the same name, with
// errors in place of exceptions.
//
// Scalars may stand at any offset, aligned or not.
//
// A segment does no locking. Reads may run in any number of goroutines; a write
// next to another access of the same bytes is a race of the callers, and between
// processes the position marker orders the two. Free must come after every other
// access. A segment over a read-only mapping may only be read: a write faults.
//
// Every operation on the bytes of a freed segment returns ErrFreed; every range
// that does not lie inside the segment returns ErrOutOfBounds. Both come as an
// *AccessError, and ErrFreed wins where both hold, even for an absurd index. An
// operation that returns an error has changed nothing.
type MemorySegment struct {
	// mem is nil once the segment is freed, and only then. So the comparison of
	// an index with its length refuses an access to a freed segment as well, and
	// only the refusal asks which of the two it was.
	mem   []byte
	size  int
	index int
	owner any
	freed atomic.Bool
}

// NewSegment makes a segment of all of mem, which is not copied. Index is the
// number of the segment in its region, owner whatever its creator wants to find
// again. A segment of no bytes is legal and refuses every access to a byte.
//
// Who maps mem keeps it mapped for as long as the segment or a slice that it
// gave out is in use.
func NewSegment(mem []byte, index int, owner any) *MemorySegment {
	if mem == nil {
		mem = []byte{}
	}
	return &MemorySegment{mem: mem, size: len(mem), index: index, owner: owner}
}

// Index returns the number of the segment in its region, also after Free.
func (s *MemorySegment) Index() int { return s.index }

// Owner returns the owner given to NewSegment, also after Free.
func (s *MemorySegment) Owner() any { return s.owner }

// Size returns the size in bytes that the segment was made with, also after Free.
func (s *MemorySegment) Size() int { return s.size }

// IsFreed reports whether Free was called. It may be called at any time.
func (s *MemorySegment) IsFreed() bool { return s.freed.Load() }

// Free ends the use of the segment and lets go of its memory; unmapping a region
// is left to the region. Slices given out before stay usable for as long as
// their memory does. A second Free returns ErrFreed: it means that two places
// believe to own the segment. Of several goroutines that call it exactly one
// gets nil.
func (s *MemorySegment) Free() error {
	if !s.freed.CompareAndSwap(false, true) {
		return fmt.Errorf("free segment %d of %d bytes: can be freed only once: %w", s.index, s.size, ErrFreed)
	}
	s.mem = nil
	return nil
}

// Bytes returns the whole segment as a slice that shares its memory, or ErrFreed.
// The slice stays usable after Free for as long as the memory does: for ever on
// the heap, until the region is unmapped otherwise. It cannot grow into what lies
// behind the segment.
func (s *MemorySegment) Bytes() ([]byte, error) {
	return s.span("wrap", 0, s.size)
}

// Wrap returns length bytes from offset on as a slice that shares the memory of
// the segment. It lives as long as a slice from Bytes, and cannot grow either.
// Errors: ErrFreed, ErrOutOfBounds.
func (s *MemorySegment) Wrap(offset, length int) ([]byte, error) {
	return s.span("wrap", offset, length)
}

// span returns the checked range of a bulk operation; verb names the operation
// in the error.
func (s *MemorySegment) span(verb string, offset, length int) ([]byte, error) {
	if s.mem == nil || offset < 0 || length < 0 || offset > len(s.mem)-length {
		return nil, s.refuse(fmt.Sprintf("%s %d bytes", verb, length), offset, length)
	}
	return s.mem[offset : offset+length : offset+length], nil
}

// refuse is small enough to be inlined with the scalar operations into their
// callers, which a call to fmt.Errorf would prevent.
func (s *MemorySegment) refuse(op string, index, width int) error {
	return &AccessError{Op: op, Index: index, Width: width, Size: s.size, Freed: s.mem == nil}
}

// AccessError says which access to a segment was refused. It is ErrFreed if the
// segment was freed and ErrOutOfBounds otherwise.
type AccessError struct {
	Op    string // what was asked for, like "get uint32" or "copy 40 bytes"
	Index int    // where in the segment, as the caller gave it
	Width int    // how many bytes, as the caller gave it
	Size  int    // size of the segment in bytes
	Freed bool   // whether the segment was freed at that moment
}

// Error names the access, the segment's size and the reason.
func (e *AccessError) Error() string {
	return fmt.Sprintf("%s at %d of a segment of %d bytes: %v", e.Op, e.Index, e.Size, e.Unwrap())
}

// Unwrap returns ErrFreed or ErrOutOfBounds.
func (e *AccessError) Unwrap() error {
	if e.Freed {
		return ErrFreed
	}
	return ErrOutOfBounds
}
