package memseg

import "fmt"

// A BufferConsumer reads one segment behind its position marker, in this process
// or another one. It hands out what is committed as Buffers, in place. The rules
// are those of Flink's BufferConsumer, among them that IsFinished answers from
// what the last Build or Skip saw.
//
// Not safe for concurrent use; the buffers it builds are. A nil consumer, and one that
// was not Reset, are as one that was closed.
type BufferConsumer struct {
	mem    []byte
	marker PositionMarker // no word for static content
	static bool
	typ    DataType

	cached       Position
	readPosition int
	refs         *references
	open         bool
}

// NewBufferConsumer returns a consumer of a segment that somebody fills. The
// recycler gets the token when the consumer is closed and every buffer built
// from it, or from a copy of it, is released.
func NewBufferConsumer(mem []byte, marker PositionMarker, typ DataType, recycler Recycler, token uint64) *BufferConsumer {
	c := &BufferConsumer{}
	c.Reset(mem, marker, typ, recycler, token)
	return c
}

// NewStaticBufferConsumer returns a consumer of content that is complete, as
// events are: it is finished from birth.
func NewStaticBufferConsumer(content []byte, typ DataType, recycler Recycler, token uint64) *BufferConsumer {
	c := &BufferConsumer{}
	c.ResetStatic(content, typ, recycler, token)
	return c
}

// Reset makes c the consumer of another segment. It does not close c.
func (c *BufferConsumer) Reset(mem []byte, marker PositionMarker, typ DataType, recycler Recycler, token uint64) {
	*c = BufferConsumer{mem: mem, marker: marker, typ: typ, refs: c.freshReferences(recycler, token), open: true}
}

// ResetStatic makes c the consumer of complete content. It does not close c.
func (c *BufferConsumer) ResetStatic(content []byte, typ DataType, recycler Recycler, token uint64) {
	*c = BufferConsumer{
		mem: content, static: true, typ: typ, refs: c.freshReferences(recycler, token),
		cached: finishedPosition(len(content)), open: true,
	}
}

// freshReferences uses the last references again once nobody holds any.
func (c *BufferConsumer) freshReferences(recycler Recycler, token uint64) *references {
	refs := c.refs
	if refs == nil || refs.count.Load() != 0 {
		refs = &references{}
	}
	refs.recycler, refs.token = recycler, token
	refs.count.Store(1)
	return refs
}

// load returns the marker's latest value, checked against the segment and
// against what was seen before: it may only grow, and finished is for ever.
func (c *BufferConsumer) load() (Position, error) {
	if c == nil || !c.open {
		return 0, fmt.Errorf("read from a closed buffer consumer: %w", ErrReleased)
	}
	if c.static {
		return c.cached, nil
	}
	p := c.marker.Load()
	if n := p.Bytes(); n > len(c.mem) || n < 0 || n < c.cached.Bytes() || n < c.readPosition ||
		c.cached.IsFinished() && p != c.cached {
		return c.cached, fmt.Errorf("position marker went from %d to %d in a segment of %d bytes: %w", c.cached, p, len(c.mem), ErrCorrupt)
	}
	return p, nil
}

// Build makes b a read-only view of everything committed since the last Build,
// which may be nothing, and takes a reference for it. A marker that a hostile
// peer spoilt is ErrCorrupt. After Close it is ErrReleased.
func (c *BufferConsumer) Build(b *Buffer) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	c.cached = p
	end := p.Bytes()
	c.refs.count.Add(1)
	b.set(c.mem[c.readPosition:end:end], c.typ, c.refs)
	c.readPosition = end
	return nil
}

// Skip passes over n readable bytes; more than are readable is ErrOutOfBounds.
func (c *BufferConsumer) Skip(n int) error {
	p, err := c.load()
	if err != nil {
		return err
	}
	c.cached = p
	if readable := p.Bytes() - c.readPosition; n < 0 || n > readable {
		return fmt.Errorf("skip %d of %d readable bytes: %w", n, readable, ErrOutOfBounds)
	}
	c.readPosition += n
	return nil
}

// Copy returns a second consumer of the same segment that starts at this one's
// read position and shares its references.
func (c *BufferConsumer) Copy() (*BufferConsumer, error) {
	if c == nil || !c.open {
		return nil, fmt.Errorf("copy a closed buffer consumer: %w", ErrReleased)
	}
	c.refs.count.Add(1)
	copied := *c
	return &copied, nil
}

// CopyWithReaderPosition is Copy with a read position of its own, at most what
// is written.
func (c *BufferConsumer) CopyWithReaderPosition(position int) (*BufferConsumer, error) {
	p, err := c.load()
	if err != nil {
		return nil, err
	}
	if position < 0 || position > p.Bytes() {
		return nil, fmt.Errorf("reader position %d of %d written bytes: %w", position, p.Bytes(), ErrOutOfBounds)
	}
	copied, err := c.Copy()
	if err != nil {
		return nil, err
	}
	copied.readPosition = position
	return copied, nil
}

// IsFinished reports whether the last Build or Skip saw the segment finished.
func (c *BufferConsumer) IsFinished() bool { return c != nil && c.cached.IsFinished() }

// IsDataAvailable reports, by a fresh look, whether Build would return bytes.
func (c *BufferConsumer) IsDataAvailable() bool {
	p, err := c.load()
	return err == nil && c.readPosition < p.Bytes()
}

// WrittenBytes returns how many bytes the last Build or Skip saw.
func (c *BufferConsumer) WrittenBytes() int {
	if c == nil {
		return 0
	}
	return c.cached.Bytes()
}

// ReadPosition returns how many bytes were built or skipped.
func (c *BufferConsumer) ReadPosition() int {
	if c == nil {
		return 0
	}
	return c.readPosition
}

// DataType returns what the segment holds.
func (c *BufferConsumer) DataType() DataType {
	if c == nil {
		return NoDataType
	}
	return c.typ
}

// IsStartOfDataBuffer reports whether nothing of a data buffer was read yet.
func (c *BufferConsumer) IsStartOfDataBuffer() bool {
	return c != nil && c.typ == DataBuffer && c.readPosition == 0
}

// Close drops the consumer's own reference, once.
func (c *BufferConsumer) Close() {
	if c != nil && c.open {
		c.open = false
		c.refs.release()
	}
}
