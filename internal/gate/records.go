package gate

import (
	"context"
	"fmt"
	"io"
	"iter"
	"runtime/debug"

	"shuffled/internal/absent"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// Records returns the records of all channels of a gate as they come; package reader
// has its contract.
func Records[T any](ctx context.Context, g *InputGate, codec shuffle.Decoder[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var r Loop[T]
		r.Run(ctx, g, codec, yield, nil)
	}
}

// Run gives the records of all channels to record, and their events to event, until one
// of them returns false. What ends it otherwise is an error, which record is given with
// no record, or the end of the gate. Without event, events are passed over and barriers
// do not hold up their channel.
//
// A Loop is run once.
func (r *Loop[T]) Run(ctx context.Context, g *InputGate, codec shuffle.Decoder[T],
	record func(T, error) bool, event func(channel int, e shuffle.Event) bool,
) {
	r.ctx, r.gate, r.codec, r.yield, r.yieldEvent = ctx, g, codec, record, event
	if err := g.check(ctx); err != nil {
		r.fail(err)
		return
	}
	if absent.Is(codec) {
		r.fail(fmt.Errorf("read records without a codec: %w", shuffle.ErrInvalidArgument))
		return
	}
	if _, ok := any(codec).(shuffle.Bytes); ok {
		r.yieldBytes, _ = any(record).(func([]byte, error) bool)
	}
	r.limit = uint32(g.spec.MaxRecordLength)
	unread, err := g.beginRecords()
	if err != nil {
		r.fail(err)
		return
	}
	g.progress = &r.progress
	onFault := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(onFault)
		g.progress = nil
		g.endRecords()
	}()
	if len(unread.bytes) > 0 {
		if err := r.check(); err != nil {
			_ = g.keepUnread(unread) // which it is already
			r.fail(err)
			return
		}
		r.chunk = unread
		if goOn, err := r.deliver(); !goOn {
			r.end(err)
			return
		}
	}
	for goOn := true; goOn; {
		if goOn, err = r.readNext(); !goOn {
			r.end(err)
		}
	}
}

// readNext delivers the records of the next buffer, or the next event.
func (r *Loop[T]) readNext() (goOn bool, err error) {
	mode := byRecord
	if r.yieldEvent != nil {
		mode = byElement
	}
	if r.buffer == nil || r.isRetained {
		r.buffer, r.isRetained = &memseg.Buffer{}, false
	}
	element, err := r.gate.next(r.ctx, r.buffer, mode)
	if err != nil {
		return false, err
	}
	if element.IsEvent() {
		event, err := element.Event()
		r.progress = progress{} // what a channel has of a record is not to be delivered yet
		return err == nil && r.yieldEvent(element.Channel, event), err
	}
	r.chunk = unreadRecords{channel: element.Channel, bytes: r.buffer.Bytes(), shared: r.buffer}
	if r.gate.spec.CopyRecords {
		if err := r.copyChunk(); err != nil {
			return false, err
		}
	}
	return r.deliver()
}

// end tells the body why its loop ends, unless that is what it has chosen itself, or
// the end of the gate.
func (r *Loop[T]) end(err error) {
	if err != nil && err != io.EOF { // not that of somebody else in a chain
		r.fail(err)
	}
}

// copyChunk has the chunk lie in the process's own memory, and releases its buffer.
func (r *Loop[T]) copyChunk() error {
	own, err := appendShared(r.gate.scratch[:0], r.chunk.bytes)
	r.gate.scratch = own
	if err == nil {
		err = r.gate.channels[r.chunk.channel].checkMemory()
	}
	r.chunk.release()
	r.chunk.bytes, r.chunk.shared = own, nil
	if err != nil {
		return r.gate.failRecords(r.chunk.channel, err)
	}
	return nil
}

// appendShared copies bytes that may lie in shared memory.
func appendShared(dst, src []byte) (_ []byte, err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "copy records", &err)
	return append(dst, src...), nil
}

// unreadRecords are records that were not delivered yet, from the start of one on.
type unreadRecords struct {
	channel int
	bytes   []byte
	shared  *memseg.Buffer // whose memory they lie in, nil for the process's own
}

// release gives the buffer back, if there is one.
func (u *unreadRecords) release() {
	if u.shared != nil {
		_ = u.shared.Release()
	}
}

// beginRecords claims the gate for a loop, and returns what the last one left.
func (g *InputGate) beginRecords() (unreadRecords, error) {
	if err := g.enter(); err != nil {
		return unreadRecords{}, err
	}
	defer g.reading.Unlock()
	if !g.looping.CompareAndSwap(false, true) {
		return unreadRecords{}, fmt.Errorf("input gate: another loop over Records is running: %w",
			shuffle.ErrConcurrentUse)
	}
	unread := g.unread
	g.unread = unreadRecords{}
	return unread, nil
}

func (g *InputGate) endRecords() {
	g.looping.Store(false)
	if g.isClosed() {
		g.dropRecords() // Close has left it to the loop
	}
}

// dropRecords forgets everything that a loop has left, unless one is running.
func (g *InputGate) dropRecords() {
	if !g.looping.CompareAndSwap(false, true) {
		return
	}
	g.unread, g.scratch = unreadRecords{}, nil
	for i := range g.channels {
		g.channels[i].record = partialRecord{}
	}
}

// checkNotInRecords refuses to read otherwise what a loop over Records reads.
func (g *InputGate) checkNotInRecords() error {
	switch {
	case g.looping.Load():
		return fmt.Errorf("input gate: a loop over Records is running: %w", shuffle.ErrConcurrentUse)
	case len(g.unread.bytes) > 0:
		return g.channelError(g.unread.channel,
			fmt.Errorf("a loop over Records has left %d bytes of records: range over Records again: %w",
				len(g.unread.bytes), shuffle.ErrRecordsLeft))
	}
	return nil
}

// keepUnread keeps records for the next loop, in memory of the process's own, so
// that their buffer can be released.
func (g *InputGate) keepUnread(unread unreadRecords) (err error) {
	if len(unread.bytes) == 0 {
		return nil
	}
	if unread.shared != nil {
		unread.bytes, err = appendShared(nil, unread.bytes)
		if err == nil {
			err = g.channels[unread.channel].checkMemory()
		}
		if err != nil {
			return g.failRecords(unread.channel, err)
		}
		unread.shared = nil
	} else {
		g.scratch = nil // they may lie in it
	}
	g.unread = unread
	return nil
}

// failRecords ends a channel from within a loop over Records.
func (g *InputGate) failRecords(channel int, err error) error {
	g.reading.Lock()
	defer g.reading.Unlock()
	if g.isClosed() {
		return errClosed
	}
	if g.channels[channel].ended { // end-of-partition is not there to be seen any more
		return g.lose(channel, err)
	}
	return g.failReading(channel, err)
}

// loseRecord notes that a channel has lost a record.
func (g *InputGate) loseRecord(channel int, err error) error {
	g.reading.Lock()
	defer g.reading.Unlock()
	return g.lose(channel, err)
}
