package gate

import (
	"encoding/binary"
	"fmt"

	"shuffled/memseg"
	"shuffled/shuffle"
)

const (
	// keptForRecords is how much memory a channel keeps to gather records in. What
	// a longer one needs beyond it is gathered in blocks: memory that grows in
	// place is copied each time, and is there twice meanwhile.
	keptForRecords = 1 << 20
	recordBlock    = 4 << 20
)

// A partialRecord gathers a record that spans buffers, its length prefix
// included. It takes as much memory as has arrived, not what the prefix promises,
// and twice that for a moment when a long record is complete.
type partialRecord struct {
	bytes  []byte   // the beginning
	blocks [][]byte // what does not fit into keptForRecords
	size   int      // of both
	// need is the size of the whole record with its prefix, 0 while the prefix is
	// not complete.
	need int
}

func (p *partialRecord) isEmpty() bool { return p.size == 0 }

// add takes from chunk what the record still needs and returns the rest. A record
// longer than limit, and one that no writer can have written, is an error.
func (p *partialRecord) add(chunk []byte, limit uint32) (rest []byte, complete bool, err error) {
	if p.need == 0 {
		n := min(memseg.LengthPrefix-p.size, len(chunk))
		p.append(chunk[:n])
		chunk = chunk[n:]
		if p.size < memseg.LengthPrefix {
			return chunk, false, nil
		}
		switch length := binary.BigEndian.Uint32(p.bytes); {
		case length > shuffle.MaxRecordLength:
			return chunk, false, fmt.Errorf("record length is %d, want at most %d: %w", length, shuffle.MaxRecordLength,
				shuffle.ErrCorruptRecord)
		case length > limit:
			return chunk, false, fmt.Errorf("record length is %d, want at most %d, MaxRecordLength of the gate: %w",
				length, limit, shuffle.ErrRecordTooLarge)
		default:
			p.need = memseg.LengthPrefix + int(length)
		}
	}
	n := min(p.need-p.size, len(chunk))
	p.append(chunk[:n])
	return chunk[n:], p.size == p.need, nil
}

func (p *partialRecord) append(b []byte) {
	n := min(len(b), keptForRecords-len(p.bytes))
	p.bytes = append(p.bytes, b[:n]...)
	p.size += n
	for b = b[n:]; len(b) > 0; b = b[n:] {
		last := len(p.blocks) - 1
		if last < 0 || len(p.blocks[last]) == cap(p.blocks[last]) {
			p.blocks = append(p.blocks, make([]byte, 0, min(recordBlock, p.need-p.size)))
			last++
		}
		block := p.blocks[last]
		n = min(len(b), cap(block)-len(block))
		p.blocks[last] = append(block, b[:n]...)
		p.size += n
	}
}

// record returns the body of a complete record.
func (p *partialRecord) record() []byte {
	if p.blocks != nil {
		whole := append(make([]byte, 0, p.need), p.bytes...)
		for i, block := range p.blocks {
			whole = append(whole, block...)
			p.blocks[i] = nil
		}
		p.bytes, p.blocks = whole, nil
	}
	return p.bytes[memseg.LengthPrefix:]
}

// reset forgets the record and keeps the memory, unless it is large.
func (p *partialRecord) reset() {
	p.bytes, p.blocks, p.size, p.need = p.bytes[:0], nil, 0, 0
	if cap(p.bytes) > keptForRecords {
		p.bytes = nil
	}
}
