package memseg

import (
	"fmt"
	"sync/atomic"
)

// A Recycler gets an element back when its last reference was released. It is
// called once per element, from whichever goroutine released last, with no lock
// of this package held.
type Recycler interface {
	// Recycle is called with the token that the element was created with.
	Recycle(token uint64)
}

// references counts who still needs an element: its consumers and every buffer
// that was built from it and is not released.
type references struct {
	count    atomic.Int32
	recycler Recycler
	token    uint64
}

func (r *references) release() {
	// Read before the count drops: at zero the object may be used again.
	recycler, token := r.recycler, r.token
	if r.count.Add(-1) == 0 && recycler != nil {
		recycler.Recycle(token)
	}
}

// A Buffer is a reference-counted view of bytes in a segment or event slot, as
// handed to the reader of a subpartition. The bytes are read in place: they are
// valid until the last Release and must not be changed.
//
// Retain and Release may be called from any goroutine. A buffer belongs to
// whoever it was handed to, who must release it. A nil buffer, and one that nothing
// was read into, is as one that was released.
type Buffer struct {
	mem   []byte
	typ   DataType
	refs  *references
	holds atomic.Int32 // the buffer's references, which are one of the element
}

// NewBuffer returns a buffer over mem with one reference. recycler may be nil.
func NewBuffer(mem []byte, typ DataType, recycler Recycler, token uint64) *Buffer {
	b := &Buffer{}
	refs := &references{recycler: recycler, token: token}
	refs.count.Store(1)
	b.set(mem, typ, refs)
	return b
}

func (b *Buffer) set(mem []byte, typ DataType, refs *references) {
	b.mem, b.typ, b.refs = mem, typ, refs
	b.holds.Store(1)
}

// Bytes returns the content, or nil once the buffer was released.
func (b *Buffer) Bytes() []byte {
	if b.IsReleased() {
		return nil
	}
	return b.mem
}

// Len returns the number of bytes.
func (b *Buffer) Len() int {
	if b == nil {
		return 0
	}
	return len(b.mem)
}

// DataType returns what the buffer holds.
func (b *Buffer) DataType() DataType {
	if b == nil {
		return NoDataType
	}
	return b.typ
}

// IsReleased reports whether this buffer's last reference is gone.
func (b *Buffer) IsReleased() bool { return b.held() <= 0 }

func (b *Buffer) held() int32 {
	if b == nil {
		return 0
	}
	return b.holds.Load()
}

func (b *Buffer) released(action string) error {
	return fmt.Errorf("%s a %s of %d bytes: %w", action, b.DataType(), b.Len(), ErrReleased)
}

// Retain takes a further reference, or returns ErrReleased when there is none
// left to share.
func (b *Buffer) Retain() error {
	for {
		n := b.held()
		if n <= 0 {
			return b.released("retain")
		}
		if b.holds.CompareAndSwap(n, n+1) {
			return nil
		}
	}
}

// Release gives a reference back. One release more than references is
// ErrReleased and changes nothing.
func (b *Buffer) Release() error {
	for {
		n := b.held()
		if n <= 0 {
			return b.released("release")
		}
		if b.holds.CompareAndSwap(n, n-1) {
			if n == 1 {
				b.refs.release()
			}
			return nil
		}
	}
}

// ReadOnlySlice returns a buffer over [offset, offset+length) of this one that
// shares its references: it takes none of its own, so it is valid as long as
// this buffer is. Offsets of slices of slices add up. ErrOutOfBounds outside the
// buffer, ErrReleased after the last release.
func (b *Buffer) ReadOnlySlice(offset, length int) (Slice, error) {
	if b.IsReleased() {
		return Slice{}, b.released("slice")
	}
	return Slice{buffer: b}.sub(offset, length, len(b.mem))
}

// A Slice is a read-only part of a Buffer.
type Slice struct {
	buffer         *Buffer
	offset, length int
}

// Slice returns a part of the slice.
func (s Slice) Slice(offset, length int) (Slice, error) { return s.sub(offset, length, s.length) }

func (s Slice) sub(offset, length, size int) (Slice, error) {
	if offset < 0 || length < 0 || offset > size || length > size-offset {
		return Slice{}, fmt.Errorf("slice [%d, +%d) of %d bytes: %w", offset, length, size, ErrOutOfBounds)
	}
	return Slice{buffer: s.buffer, offset: s.offset + offset, length: length}, nil
}

// Bytes returns the content of the slice, or nil once its buffer was released.
func (s Slice) Bytes() []byte {
	mem := s.buffer.Bytes()
	if mem == nil {
		return nil
	}
	return mem[s.offset : s.offset+s.length : s.offset+s.length]
}

// Retain and Release act on the references of the buffer.
func (s Slice) Retain() error { return s.buffer.Retain() }

// Release gives a reference of the buffer back.
func (s Slice) Release() error { return s.buffer.Release() }
