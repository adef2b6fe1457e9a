package memseg

import (
	"bytes"
	"fmt"
)

// The bulk operations. A range is legal if offset and length are not negative
// and all of it lies inside; the empty range at Size is legal. An operation with
// a slice checks the slice's range first and the segment after it. An operation
// with two segments asks first whether this one was freed, then whether the
// other was, and then about bounds. All of a range is checked before anything is
// moved.

// Get fills dst from the bytes at index.
// Errors: ErrFreed, ErrOutOfBounds.
func (s *MemorySegment) Get(index int, dst []byte) error {
	src, err := s.span("get", index, len(dst))
	if err != nil {
		return err
	}
	copy(dst, src)
	return nil
}

// GetRange copies length bytes at index to dst, from dst's offset on.
// Errors: ErrOutOfBounds for the range of dst even if the segment was freed;
// ErrFreed, ErrOutOfBounds for the segment.
func (s *MemorySegment) GetRange(index int, dst []byte, offset, length int) error {
	if offset < 0 || length < 0 || offset > len(dst)-length {
		return fmt.Errorf("get %d bytes to %d of a slice of %d bytes: %w", length, offset, len(dst), ErrOutOfBounds)
	}
	return s.Get(index, dst[offset:offset+length])
}

// Put stores all of src at index.
// Errors: ErrFreed, ErrOutOfBounds.
func (s *MemorySegment) Put(index int, src []byte) error {
	dst, err := s.span("put", index, len(src))
	if err != nil {
		return err
	}
	copy(dst, src)
	return nil
}

// PutRange stores length bytes of src, from src's offset on, at index.
// Errors: as for GetRange.
func (s *MemorySegment) PutRange(index int, src []byte, offset, length int) error {
	if offset < 0 || length < 0 || offset > len(src)-length {
		return fmt.Errorf("put %d bytes from %d of a slice of %d bytes: %w", length, offset, len(src), ErrOutOfBounds)
	}
	return s.Put(index, src[offset:offset+length])
}

// CopyTo copies length bytes at offset to target's targetOffset. The target may
// be the segment itself and the ranges may overlap: what is copied is the
// content before the call.
// Errors: ErrFreed, ErrOutOfBounds, for either segment.
func (s *MemorySegment) CopyTo(offset int, target *MemorySegment, targetOffset, length int) error {
	src, dst, err := s.spans("copy", offset, length, target, targetOffset, length)
	if err != nil {
		return err
	}
	copy(dst, src)
	return nil
}

// SwapBytes exchanges length bytes at offset with those at other's otherOffset.
// Scratch holds the bytes in between and must have at least length of them; its
// first length bytes are the segment's old ones afterwards. If the two ranges
// overlap in one memory, the range of other ends up with the segment's bytes.
// Errors: ErrOutOfBounds for a short scratch even if a segment was freed;
// ErrFreed, ErrOutOfBounds, for either segment.
func (s *MemorySegment) SwapBytes(scratch []byte, other *MemorySegment, offset, otherOffset, length int) error {
	if len(scratch) < length {
		return fmt.Errorf("swap %d bytes through a scratch slice of %d bytes: %w", length, len(scratch), ErrOutOfBounds)
	}
	mine, theirs, err := s.spans("swap", offset, length, other, otherOffset, length)
	if err != nil {
		return err
	}
	copy(scratch, mine)
	copy(mine, theirs)
	copy(theirs, scratch)
	return nil
}

// Compare compares length bytes at offset with those at other's otherOffset,
// byte by byte as unsigned numbers. It returns -1, 0 or +1.
// Errors: ErrFreed, ErrOutOfBounds, for either segment.
func (s *MemorySegment) Compare(other *MemorySegment, offset, otherOffset, length int) (int, error) {
	return s.CompareRanges(other, offset, otherOffset, length, length)
}

// CompareRanges is Compare for ranges of two lengths: where one is the beginning
// of the other, the shorter one comes first.
func (s *MemorySegment) CompareRanges(other *MemorySegment, offset, otherOffset, length, otherLength int) (int, error) {
	mine, theirs, err := s.spans("compare", offset, length, other, otherOffset, otherLength)
	if err != nil {
		return 0, err
	}
	return bytes.Compare(mine, theirs), nil
}

// EqualTo reports whether length bytes at offset are those at other's
// otherOffset. Nothing equals nothing: for a length of 0 or less it is true, and
// neither segment is looked at.
// Errors: ErrFreed, ErrOutOfBounds, for either segment.
func (s *MemorySegment) EqualTo(other *MemorySegment, offset, otherOffset, length int) (bool, error) {
	if length <= 0 {
		return true, nil
	}
	mine, theirs, err := s.spans("compare", offset, length, other, otherOffset, length)
	if err != nil {
		return false, err
	}
	return bytes.Equal(mine, theirs), nil
}

// spans returns the checked ranges of an operation with two segments.
func (s *MemorySegment) spans(verb string, offset, length int, other *MemorySegment, otherOffset, otherLength int) (mine, theirs []byte, err error) {
	if other == nil {
		other = &MemorySegment{} // which is as one that was freed
	}
	if s.mem != nil && other.mem == nil {
		_, err = other.span(verb, otherOffset, otherLength)
		return nil, nil, err
	}
	if mine, err = s.span(verb, offset, length); err != nil {
		return nil, nil, err
	}
	theirs, err = other.span(verb, otherOffset, otherLength)
	return mine, theirs, err
}
