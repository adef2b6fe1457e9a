package memseg

import (
	"fmt"
	"sync/atomic"

	"shuffled/internal/invariants"
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
	releases invariants.Releases // the last one, as number 0
	recycler Recycler
	token    uint64
}

func (r *references) release() {
	// Read before the count drops: at zero the object may be used again.
	recycler, token := r.recycler, r.token
	count := r.count.Add(-1)
	if invariants.Enabled {
		r.checkReleased(count)
	}
	if count == 0 && recycler != nil {
		recycler.Recycle(token)
	}
}

// checkReleased panics if more references were released than taken: Buffer and
// BufferConsumer let nobody do that.
func (r *references) checkReleased(count int32) {
	if count < 0 {
		panic(fmt.Sprintf("memseg: element %d was released more often than retained%s", r.token, r.releases.First(0)))
	}
	if count == 0 {
		r.releases.Remember(0)
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
