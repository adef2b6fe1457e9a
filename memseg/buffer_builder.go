package memseg

import "fmt"

// CommitStep is how many bytes a builder collects before it publishes its
// position: a segment of the default size. To commit takes locked instructions, each
// of which waits until the bytes written before have left the core: per record it
// would cost several times the throughput, twice a segment a tenth.
const CommitStep = 32 << 10

// A BufferBuilder fills one segment. It keeps an uncommitted position of its own
// and publishes it in the segment's position marker: readers see the bytes below
// the marker and nothing else. The rules are those of Flink's BufferBuilder.
//
// One goroutine writes and calls everything but PublishWritten. That one is for
// another goroutine, as the output flusher: it publishes what an idle writer has
// written, and never a part of a record. Where it is used, the methods that store
// the marker (Commit, Finish, Reset, PublishWritten) need a common lock.
//
// Enter is for a goroutine that writes without a lock where others may come by: see
// filler.
type BufferBuilder struct {
	mem    []byte // the segment
	limit  uint64 // how much it takes; 0 once it was stopped or taken from its filler
	pos    uint64 // uncommitted position; stored with release, see storeRelease
	step   uint64 // position at which Advance asks for a commit
	filler filler
	marker PositionMarker

	committed int
	finished  bool
}

// NewBufferBuilder returns a builder for an empty segment and stores its marker.
func NewBufferBuilder(mem []byte, marker PositionMarker) *BufferBuilder {
	b := &BufferBuilder{}
	b.Reset(mem, marker)
	return b
}

// Reset starts a new segment with the same builder.
func (b *BufferBuilder) Reset(mem []byte, marker PositionMarker) {
	*b = BufferBuilder{mem: mem, limit: uint64(len(mem)), marker: marker, filler: noFiller}
	b.step = min(CommitStep, b.limit)
	marker.store(0)
}

// Reserve returns the next n bytes of the segment to write in place, or nil if
// they do not fit or the builder is finished. Advance keeps them; without it
// they are free again.
func (b *BufferBuilder) Reserve(n int) []byte {
	p := int(b.pos)
	end := p + n
	if end > b.MaxCapacity() || n < 0 {
		return nil
	}
	return b.mem[p:end:end]
}

// Advance keeps n bytes that Reserve returned and reports whether a Commit is
// due: a step is full, or the segment.
func (b *BufferBuilder) Advance(n int) (due bool) {
	p := b.pos + uint64(n)
	storeRelease(&b.pos, p)
	return p >= b.step
}

// Append copies as much of src as fits and returns the number of bytes. Nothing
// is visible before Commit. ErrBuilderFinished after Finish.
func (b *BufferBuilder) Append(src []byte) (int, error) {
	if b.finished {
		return 0, fmt.Errorf("append %d bytes: %w", len(src), ErrBuilderFinished)
	}
	n := min(len(src), b.WritableBytes())
	copy(b.Reserve(n), src)
	b.Advance(n)
	return n, nil
}

// Commit publishes what was written, and returns how many bytes are published.
func (b *BufferBuilder) Commit() int {
	p := b.PublishWritten()
	b.step = uint64(min(p+CommitStep, b.MaxCapacity()))
	return p
}

// PublishWritten publishes what was written up to the last Advance, and returns
// how many bytes are published. It may run beside Reserve and Advance.
func (b *BufferBuilder) PublishWritten() int {
	p := int(loadAcquire(&b.pos))
	if p > b.committed && !b.finished {
		b.marker.store(Position(p))
		b.committed = p
	}
	return b.committed
}

// Finish publishes what was written as all that this segment will hold, and
// returns the number of bytes. A second call returns the same number.
func (b *BufferBuilder) Finish() int {
	p := int(b.pos)
	if !b.finished {
		b.marker.store(finishedPosition(p))
		b.finished, b.committed, b.limit = true, p, b.pos
	}
	return p
}

// IsFull reports whether no byte fits any more.
func (b *BufferBuilder) IsFull() bool { return b.pos == b.limit }

// WritableBytes returns how many bytes fit.
func (b *BufferBuilder) WritableBytes() int { return b.MaxCapacity() - int(b.pos) }

// MaxCapacity returns how many bytes the segment takes.
func (b *BufferBuilder) MaxCapacity() int { return int(loadAcquire(&b.limit)) }
