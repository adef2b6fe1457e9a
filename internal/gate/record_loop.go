package gate

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"shuffled/internal/ctxerr"
	"shuffled/internal/sentinel"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// A Loop is one range over the records of a gate, see Run. One goroutine uses it.
type Loop[T any] struct {
	ctx        context.Context
	gate       *InputGate
	codec      shuffle.Decoder[T]
	yield      func(T, error) bool
	yieldEvent func(channel int, e shuffle.Event) bool // nil if events are passed over
	// yieldBytes is yield where the codec is shuffle.Bytes, which needs no call.
	yieldBytes func([]byte, error) bool
	limit      uint32 // the longest record
	fetched    byte

	buffer *memseg.Buffer // to read into
	chunk  unreadRecords  // what is read now
	progress
	isSpanning bool            // the record that is delivered began in an earlier chunk
	isRetained bool            // the body keeps the buffer of the chunk
	presence   memseg.Presence // of the memory that the chunk lies in
}

// progress is how far a loop has come in its chunk.
type progress struct {
	at     place
	beyond int // how many bytes of the chunk lie beyond the window that is delivered
}

// A place says how far a loop has come in the window that it delivers, for the case
// that the body or the codec does not return.
type place struct {
	left int  // bytes behind the record that was delivered last
	who  user // of that record
}

// A user is whoever runs at a place.
type user uint8

const (
	theLoop user = iota
	theBody
	theCodec
)

func (r *Loop[T]) fail(err error) {
	var zero T
	r.yield(zero, err)
}

// deliver yields the records of the chunk, after what the channel holds of an earlier
// one, and keeps the last one if it goes on in the next chunk. It releases the buffer.
// Unless the loop is to go on, and whatever stops it, deliver keeps what lies behind
// the last record that the body or the codec was given.
func (r *Loop[T]) deliver() (goOn bool, err error) {
	r.presence = memseg.Presence{}
	if r.chunk.shared != nil {
		r.presence = r.gate.channels[r.chunk.channel].view.Presence()
	}
	hasReturned := false
	defer func() {
		switch {
		case hasReturned:
		case r.at.who == theBody: // its panic, or the end of its goroutine, goes on
			r.stop()
		default:
			err = r.interrupted(recover())
		}
		r.chunk.release()
	}()
	goOn, err = r.readChunk()
	hasReturned = true
	if !goOn {
		r.keepRest()
	}
	return goOn, err
}

// interrupted is what a panic of the codec, a fault, or the end of the goroutine in
// the codec comes to.
func (r *Loop[T]) interrupted(panicked any) error {
	fault := memseg.FaultOf(panicked, "read records")
	if fault != nil {
		return r.gate.failRecords(r.chunk.channel, fault)
	}
	isCodec := r.at.who == theCodec
	if isCodec && panicked != nil {
		if taken := r.checkMemory(); taken != nil { // what it was given was zeros
			return r.gate.failRecords(r.chunk.channel, taken)
		}
	}
	r.stop()
	switch {
	case panicked == nil: // the goroutine ends
		return nil
	case !isCodec:
		r.chunk.release()
		panic(panicked)
	}
	return r.gate.loseRecord(r.chunk.channel, fmt.Errorf("the codec panicked: %v: %w", panicked,
		shuffle.ErrCorruptRecord))
}

// stop keeps what lies behind the record that did not return.
func (r *Loop[T]) stop() {
	if r.isSpanning {
		r.gate.channels[r.chunk.channel].record.reset()
	}
	r.cut(r.at.left)
	r.keepRest()
}

// cut drops from the chunk what was delivered of it: all but left bytes of the window
// and what lies beyond that.
func (r *Loop[T]) cut(left int) {
	r.chunk.bytes = r.chunk.bytes[len(r.chunk.bytes)-r.beyond-left:]
	r.at, r.beyond = place{left: len(r.chunk.bytes)}, 0
}

// keepRest keeps the chunk for the next loop. If that fails, a body that is still
// there is told of it by the end of the gate.
func (r *Loop[T]) keepRest() { _ = r.gate.keepUnread(r.chunk) }

// recordWindow is how many bytes are delivered between two looks at the context.
const recordWindow = 32 << 10

// readChunk yields the records of the chunk. When it reports that the loop should not
// go on, the chunk is what is left.
func (r *Loop[T]) readChunk() (goOn bool, err error) {
	record := &r.gate.channels[r.chunk.channel].record
	if !record.isEmpty() {
		if goOn, err = r.readSpanning(record); !goOn {
			return false, err
		}
	}
	for size := recordWindow; ; {
		window := r.chunk.bytes[:min(size, len(r.chunk.bytes))]
		r.at, r.beyond = place{left: len(window)}, len(r.chunk.bytes)-len(window)
		left, goOn, err := r.deliverWhole(window)
		switch {
		case err == errTakenAway:
			return r.failFraming(err)
		case err != nil || !goOn:
			r.cut(len(left))
			return false, r.refused(err)
		case r.beyond == 0:
			if len(left) == 0 {
				return true, nil
			}
			return r.keepPartial(record, left)
		case len(left) == len(window):
			size *= 2 // the record is longer
			continue
		}
		r.cut(len(left))
		size = recordWindow
		if err := r.check(); err != nil {
			return false, err
		}
	}
}

// readSpanning yields the record that began in an earlier chunk, if it ends in this
// one.
func (r *Loop[T]) readSpanning(record *partialRecord) (goOn bool, err error) {
	r.at, r.beyond = place{}, 0
	rest, complete, err := record.add(r.chunk.bytes, r.limit)
	if err == nil && !r.presence.Holds() {
		err = errTakenAway
	}
	if err != nil {
		return r.failFraming(err)
	}
	r.chunk.bytes = rest
	if !complete {
		return true, nil
	}
	r.at.left, r.isSpanning = len(rest), true
	goOn, err = r.deliverOne(record.record())
	record.reset()
	r.isSpanning = false
	return goOn && err == nil, r.refused(err)
}

// failFraming ends the channel: where the next record begins is not known. What became
// of its memory is the cause of all else.
func (r *Loop[T]) failFraming(err error) (goOn bool, _ error) {
	r.chunk.bytes = nil
	if taken := r.checkMemory(); taken != nil {
		err = taken
	}
	return false, r.gate.failRecords(r.chunk.channel, err)
}

// errTakenAway is what is found out about memory that is not there any more. The view
// says more.
var errTakenAway = errors.New("memory was taken away")

func (r *Loop[T]) checkMemory() error {
	if r.chunk.shared == nil {
		return nil
	}
	return r.gate.channels[r.chunk.channel].checkMemory()
}

// check looks whether the loop should end.
func (r *Loop[T]) check() error {
	if err := r.gate.gone(); err != nil {
		return err
	}
	if err := ctxerr.Of(r.ctx); err != nil {
		return fmt.Errorf("read records: %w", err)
	}
	return nil
}

// refused makes the error of a codec one of the channel, and leaves none alone.
func (r *Loop[T]) refused(err error) error {
	if err == nil {
		return nil
	}
	if taken := r.checkMemory(); taken != nil { // it was zeros
		_, taken = r.failFraming(taken)
		return taken
	}
	return r.gate.loseRecord(r.chunk.channel, fmt.Errorf("%w: %w", shuffle.ErrCorruptRecord, sentinel.Foreign(err)))
}

// keepPartial keeps the beginning of a record that goes on in the next buffer.
func (r *Loop[T]) keepPartial(record *partialRecord, rest []byte) (goOn bool, err error) {
	_, complete, err := record.add(rest, r.limit)
	if err == nil && complete {
		err = fmt.Errorf("the length of a record changed while it was read: %w", shuffle.ErrCorruptRecord)
	}
	if err != nil {
		return r.failFraming(err)
	}
	return true, nil
}

// deliverOne yields one record.
func (r *Loop[T]) deliverOne(body []byte) (goOn bool, err error) {
	r.at.who = theCodec
	rec, err := r.codec.Decode(body)
	r.at.who = theBody
	if err == nil {
		goOn = r.yield(rec, nil)
	}
	r.at.who = theLoop
	return goOn, err
}

// deliverWhole yields the records that lie in chunk as a whole, in place.
func (r *Loop[T]) deliverWhole(chunk []byte) (rest []byte, goOn bool, err error) {
	if len(chunk) >= memseg.LengthPrefix && binary.BigEndian.Uint32(chunk) < fetchAhead {
		r.fetched += fetch(chunk)
	}
	if r.yieldBytes != nil && len(chunk) <= int(r.limit) {
		return deliverBytes(chunk, &r.at, r.presence, r.yieldBytes)
	}
	for len(chunk) >= memseg.LengthPrefix {
		length := binary.BigEndian.Uint32(chunk)
		end := memseg.LengthPrefix + int(length)
		if end > len(chunk) || length > r.limit {
			break
		}
		if length == 0 && !r.presence.Holds() {
			return chunk, false, errTakenAway
		}
		body := chunk[memseg.LengthPrefix:end:end]
		chunk = chunk[end:]
		r.at = place{len(chunk), theCodec}
		rec, err := r.codec.Decode(body)
		if err != nil {
			r.at.who = theLoop
			return chunk, false, err
		}
		r.at.who = theBody
		if !r.yield(rec, nil) {
			r.at.who = theLoop
			return chunk, false, nil
		}
		r.at.who = theLoop
	}
	return chunk, true, nil
}

// deliverBytes is deliverWhole without a codec, of a chunk that no record can be
// longer than.
func deliverBytes(chunk []byte, at *place, presence memseg.Presence, yield func([]byte, error) bool) (rest []byte,
	goOn bool, err error) {
	for len(chunk) >= memseg.LengthPrefix {
		end := memseg.LengthPrefix + int(binary.BigEndian.Uint32(chunk))
		if end > len(chunk) {
			break
		}
		if end == memseg.LengthPrefix && !presence.Holds() {
			return chunk, false, errTakenAway
		}
		rec := chunk[memseg.LengthPrefix:end:end]
		chunk = chunk[end:]
		*at = place{len(chunk), theBody}
		if !yield(rec, nil) {
			at.who = theLoop
			return chunk, false, nil
		}
		at.who = theLoop
	}
	return chunk, true, nil
}

// fetchAhead is the size of records below which a buffer is fetched before it is
// parsed. Where the next record begins is known only when the length of this one
// has arrived from the producer's core, so a chain of small records would wait for
// one line after the other.
const fetchAhead = 2048

// fetch loads a byte of each line of a buffer, which the processor can do side by
// side. The result keeps the compiler from leaving it out.
func fetch(b []byte) (sum byte) {
	const line = 64
	for i := 0; i < len(b); i += line {
		sum += b[i]
	}
	return sum
}
