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
func NewBufferConsumer(mem []byte, marker PositionMarker, typ DataType, recycler Recycler,
	token uint64) *BufferConsumer {
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
		return c.cached, fmt.Errorf("position marker went from %d to %d in a segment of %d bytes: %w", c.cached, p,
			len(c.mem), ErrCorrupt)
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

// IsFinished reports whether the last Build or Skip saw the segment finished.
func (c *BufferConsumer) IsFinished() bool { return c != nil && c.cached.IsFinished() }

// DataType returns what the segment holds.
func (c *BufferConsumer) DataType() DataType {
	if c == nil {
		return NoDataType
	}
	return c.typ
}

// Close drops the consumer's own reference, once.
func (c *BufferConsumer) Close() {
	if c != nil && c.open {
		c.open = false
		c.refs.release()
	}
}
