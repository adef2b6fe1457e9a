package reader

import (
	"context"
	"encoding/binary"
	"fmt"
	"runtime/debug"

	"shuffled/internal/ctxerr"
	"shuffled/internal/sentinel"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// A recordLoop delivers records to the body of one loop.
type recordLoop[T any] struct {
	ctx   context.Context
	gate  *InputGate
	codec shuffle.Codec[T]
	yield func(T, error) bool
	// yieldBytes is yield where the codec is shuffle.Bytes, which needs no call.
	yieldBytes func([]byte, error) bool
	limit      uint32 // the longest record
	fetched    byte
	at         place
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

func (r *recordLoop[T]) fail(err error) {
	var zero T
	r.yield(zero, err)
}

// deliver yields the records of one buffer, after what the channel holds of an
// earlier one, and keeps the last one if it goes on in the next buffer. When the
// loop ends, it keeps the records that are left.
func (r *recordLoop[T]) deliver(chunk unreadRecords) (goOn bool) {
	rest, goOn, err := r.read(chunk)
	if goOn {
		return true
	}
	chunk.bytes = rest
	// If that fails, a body that is still there is told of it by the end of the gate.
	_ = r.gate.keepUnread(chunk)
	if err != nil {
		r.fail(err)
	}
	return false
}

// recordWindow is how many bytes are delivered between two looks at the context.
const recordWindow = 32 << 10

// read is deliver without an end: it returns what is left. Whatever stops it, rest
// begins behind the last record that the body or the codec was given.
func (r *recordLoop[T]) read(chunk unreadRecords) (rest []byte, goOn bool, err error) {
	rest = chunk.bytes
	window := rest // the part of it that is read now
	record := &r.gate.channels[chunk.channel].record
	r.at = place{left: len(window)}
	isSpanning, hasReturned := false, false
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if hasReturned {
			return
		}
		rest, goOn = rest[len(window)-r.at.left:], false
		if isSpanning {
			record.reset()
		}
		if r.at.who == theBody { // its panic, or the end of its goroutine, goes on
			chunk.bytes = rest
			_ = r.gate.keepUnread(chunk)
			return
		}
		p := recover()
		fault := memseg.FaultOf(p, "read records")
		switch {
		case p == nil: // the codec ends the goroutine
			chunk.bytes = rest
			_ = r.gate.keepUnread(chunk)
		case fault != nil:
			rest, err = nil, r.gate.failRecords(chunk.channel, fault)
		case r.at.who != theCodec:
			panic(p)
		default:
			err = r.gate.loseRecord(chunk.channel, fmt.Errorf("the codec panicked: %v: %w", p, shuffle.ErrCorruptRecord))
		}
	}()

	if !record.isEmpty() {
		var complete bool
		if rest, complete, err = record.add(rest, r.limit); err != nil {
			hasReturned = true
			return nil, false, r.gate.failRecords(chunk.channel, err) // where the next record begins is not known
		}
		if complete {
			window, r.at.left, isSpanning = rest, len(rest), true
			goOn, err = r.deliverOne(record.record())
			record.reset()
			isSpanning = false
			if err != nil || !goOn {
				hasReturned = true
				return rest, false, r.refused(chunk.channel, err)
			}
		}
	}
	for size := recordWindow; ; {
		window = rest[:min(size, len(rest))]
		r.at.left = len(window)
		var left []byte
		left, goOn, err = r.deliverWhole(window)
		used := len(window) - len(left)
		isLast := len(window) == len(rest)
		rest = rest[used:]
		window, r.at.left = rest, len(rest)
		switch {
		case err != nil || !goOn:
			hasReturned = true
			return rest, false, r.refused(chunk.channel, err)
		case isLast:
			err = r.keepPartial(record, rest)
			hasReturned = true
			if err != nil {
				return nil, false, r.gate.failRecords(chunk.channel, err)
			}
			return nil, true, nil
		case used == 0:
			size *= 2 // the record is longer
			continue
		}
		size = recordWindow
		if err = r.check(); err != nil {
			hasReturned = true
			return rest, false, err
		}
	}
}

// check looks whether the loop should end.
func (r *recordLoop[T]) check() error {
	if err := r.gate.gone(); err != nil {
		return err
	}
	if err := ctxerr.Of(r.ctx); err != nil {
		return fmt.Errorf("read records: %w", err)
	}
	return nil
}

// refused makes the error of a codec one of the channel, and leaves none alone.
func (r *recordLoop[T]) refused(channel int, err error) error {
	if err == nil {
		return nil
	}
	return r.gate.loseRecord(channel, fmt.Errorf("%w: %w", shuffle.ErrCorruptRecord, sentinel.Foreign(err)))
}

// keepPartial keeps the beginning of a record that goes on in the next buffer.
func (r *recordLoop[T]) keepPartial(record *partialRecord, rest []byte) error {
	if len(rest) == 0 {
		return nil
	}
	_, complete, err := record.add(rest, r.limit)
	if err == nil && complete {
		err = fmt.Errorf("the length of a record changed while it was read: %w", shuffle.ErrCorruptRecord)
	}
	return err
}

// deliverOne yields one record.
func (r *recordLoop[T]) deliverOne(body []byte) (goOn bool, err error) {
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
func (r *recordLoop[T]) deliverWhole(chunk []byte) (rest []byte, goOn bool, err error) {
	if len(chunk) >= lengthPrefix && binary.BigEndian.Uint32(chunk) < fetchAhead {
		r.fetched += fetch(chunk)
	}
	if r.yieldBytes != nil && len(chunk) <= int(r.limit) {
		rest, goOn = deliverBytes(chunk, &r.at, r.yieldBytes)
		return rest, goOn, nil
	}
	for len(chunk) >= lengthPrefix {
		length := binary.BigEndian.Uint32(chunk)
		end := lengthPrefix + int(length)
		if end > len(chunk) || length > r.limit {
			break
		}
		body := chunk[lengthPrefix:end:end]
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
func deliverBytes(chunk []byte, at *place, yield func([]byte, error) bool) (rest []byte, goOn bool) {
	for len(chunk) >= lengthPrefix {
		end := lengthPrefix + int(binary.BigEndian.Uint32(chunk))
		if end > len(chunk) {
			break
		}
		rec := chunk[lengthPrefix:end:end]
		chunk = chunk[end:]
		*at = place{len(chunk), theBody}
		if !yield(rec, nil) {
			at.who = theLoop
			return chunk, false
		}
		at.who = theLoop
	}
	return chunk, true
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
