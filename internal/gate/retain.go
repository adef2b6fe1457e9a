package gate

import (
	"fmt"
	"sync/atomic"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// Channel is where the record that the body has comes from.
func (r *Loop[T]) Channel() int { return r.chunk.channel }

// Retain keeps the memory of the record that the body has until release is called, from
// any goroutine; further calls of release do nothing. Records of one buffer are kept
// with it, and it counts once as a buffer that the gate's user keeps. A record in memory
// of the process's own counts for nothing.
func (r *Loop[T]) Retain() (release func(), err error) {
	switch {
	case r.at.who != theBody:
		return nil, fmt.Errorf("retain a record of a loop that has gone on, or is over: %w", shuffle.ErrInvalidArgument)
	case r.isSpanning:
		r.gate.channels[r.chunk.channel].record.bytes = nil
	case r.chunk.shared == nil:
		r.gate.scratch = nil // it may lie there
	default:
		if err := r.chunk.shared.Retain(); err != nil {
			return nil, err
		}
		r.isRetained = true
		kept := keptBuffer{buffer: r.chunk.shared}
		return kept.release, nil
	}
	return func() {}, nil
}

// A keptBuffer is a reference of a buffer, which is given back once.
type keptBuffer struct {
	buffer   *memseg.Buffer
	released atomic.Bool
}

func (k *keptBuffer) release() {
	if !k.released.Swap(true) {
		_ = k.buffer.Release()
	}
}
