package reader

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// lengthPrefix is the number of bytes of a record's length, big-endian.
const lengthPrefix = 4

// A partialRecord gathers a record that spans buffers, its length prefix
// included.
type partialRecord struct {
	bytes []byte
	// need is the size of the whole record with its prefix, 0 while the prefix is
	// not complete.
	need int
}

func (p *partialRecord) isEmpty() bool { return len(p.bytes) == 0 }

// add takes from chunk what the record still needs and returns the rest. The
// memory grows with what arrives, not with what the prefix promises.
func (p *partialRecord) add(chunk []byte) (rest []byte, complete bool, err error) {
	if p.need == 0 {
		n := min(lengthPrefix-len(p.bytes), len(chunk))
		p.bytes = append(p.bytes, chunk[:n]...)
		chunk = chunk[n:]
		if len(p.bytes) < lengthPrefix {
			return chunk, false, nil
		}
		length := binary.BigEndian.Uint32(p.bytes)
		if length > shuffle.MaxRecordLength {
			return chunk, false, fmt.Errorf("record length is %d, want at most %d: %w", length, shuffle.MaxRecordLength, shuffle.ErrCorruptRecord)
		}
		p.need = lengthPrefix + int(length)
	}
	n := min(p.need-len(p.bytes), len(chunk))
	p.bytes = append(p.bytes, chunk[:n]...)
	return chunk[n:], len(p.bytes) == p.need, nil
}

// reset forgets the record and keeps the memory, unless it is large.
func (p *partialRecord) reset() {
	const keep = 1 << 20
	p.bytes, p.need = p.bytes[:0], 0
	if cap(p.bytes) > keep {
		p.bytes = nil
	}
}

// Records returns the records of all channels of a gate as they come, until the
// gate has ended. Events are passed over. A record, and what it refers to, may
// lie in shared memory: it is valid until the next step of the loop, unless the
// codec copies.
//
// An error ends the loop: that of ctx, of a channel (after the records that its
// producer had committed), of the codec, or shuffle.ErrCorruptRecord. Ranging
// over the gate again, after an error or a break, goes on with the next record.
func Records[T any](ctx context.Context, g *InputGate, codec shuffle.Codec[T]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		r := recordLoop[T]{codec: codec, yield: yield}
		if _, ok := any(codec).(shuffle.Bytes); ok {
			r.yieldBytes, _ = any(yield).(func([]byte, error) bool)
		}
		for g.unread != nil {
			unread := g.unread
			g.unread = nil
			if !r.deliver(g, unread.channel, unread.bytes) {
				return
			}
		}
		b := &memseg.Buffer{}
		for {
			element, err := g.next(ctx, b, true)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				r.fail(err)
				return
			}
			goOn := true
			switch channel := element.Channel; {
			case !element.IsEvent():
				goOn = r.deliver(g, channel, b.Bytes())
			case element.DataType() == memseg.EndOfPartition && !g.channels[channel].record.isEmpty():
				r.fail(fmt.Errorf("channel %d: the stream ends within a record: %w", channel, shuffle.ErrCorruptRecord))
				goOn = false
			}
			_ = b.Release()
			if !goOn {
				return
			}
		}
	}
}

// unreadRecords is the rest of a buffer whose records were not all taken.
type unreadRecords struct {
	channel int
	bytes   []byte
}

// A recordLoop delivers records to the body of one loop.
type recordLoop[T any] struct {
	codec shuffle.Codec[T]
	yield func(T, error) bool
	// yieldBytes is yield where the codec is shuffle.Bytes, which needs no call.
	yieldBytes func([]byte, error) bool
	fetched    byte
}

func (r *recordLoop[T]) fail(err error) {
	var zero T
	r.yield(zero, err)
}

// deliver yields the records of one buffer, after what the channel holds of an
// earlier one, and keeps the last one if it goes on in the next buffer. When the
// loop ends, it keeps the records that are left.
func (r *recordLoop[T]) deliver(g *InputGate, channel int, chunk []byte) (goOn bool) {
	partial := &g.channels[channel].record
	rest, err := chunk, error(nil)
	if !partial.isEmpty() {
		rest, goOn, err = r.deliverSpanning(partial, rest)
		if err == nil && goOn {
			rest, goOn, err = r.deliverWhole(rest)
		}
	} else {
		rest, goOn, err = r.deliverWhole(rest)
	}
	if err == nil && goOn {
		if len(rest) > 0 {
			_, _, err = partial.add(rest)
		}
		if err == nil {
			return true
		}
		rest = nil
	}
	if len(rest) > 0 {
		g.unread = &unreadRecords{channel: channel, bytes: append([]byte(nil), rest...)}
	}
	if err != nil {
		r.fail(fmt.Errorf("channel %d: %w", channel, err))
	}
	return false
}

func (r *recordLoop[T]) deliverSpanning(partial *partialRecord, chunk []byte) (rest []byte, goOn bool, err error) {
	rest, complete, err := partial.add(chunk)
	if err != nil {
		return nil, false, err // where the next record begins is not known
	}
	if !complete {
		return rest, true, nil
	}
	rec, err := r.codec.Decode(partial.bytes[lengthPrefix:])
	if err == nil {
		goOn = r.yield(rec, nil)
	}
	partial.reset()
	return rest, goOn, err
}

// deliverWhole yields the records that lie in chunk as a whole, in place.
func (r *recordLoop[T]) deliverWhole(chunk []byte) (rest []byte, goOn bool, err error) {
	if len(chunk) >= lengthPrefix && binary.BigEndian.Uint32(chunk) < fetchAhead {
		r.fetched += fetch(chunk)
	}
	if r.yieldBytes != nil {
		rest, goOn = deliverBytes(chunk, r.yieldBytes)
		return rest, goOn, nil
	}
	for len(chunk) >= lengthPrefix {
		end := lengthPrefix + int(binary.BigEndian.Uint32(chunk))
		if end > len(chunk) {
			break
		}
		rec, err := r.codec.Decode(chunk[lengthPrefix:end:end])
		chunk = chunk[end:]
		if err != nil {
			return chunk, false, err
		}
		if !r.yield(rec, nil) {
			return chunk, false, nil
		}
	}
	return chunk, true, nil
}

// deliverBytes is deliverWhole without a codec.
func deliverBytes(chunk []byte, yield func([]byte, error) bool) (rest []byte, goOn bool) {
	for len(chunk) >= lengthPrefix {
		end := lengthPrefix + int(binary.BigEndian.Uint32(chunk))
		if end > len(chunk) {
			break
		}
		rec := chunk[lengthPrefix:end:end]
		chunk = chunk[end:]
		if !yield(rec, nil) {
			return chunk, false
		}
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
