package memseg

import "math"

// finishedEmpty says "finished with 0 bytes", because -0 is 0.
const finishedEmpty = math.MinInt32

// A PositionMarker is the shared word that says how far a segment is filled and
// whether more will come. It is a signed 32-bit value as in Flink's
// PositionMarker: n >= 0 is n bytes committed, -n is finished with n bytes, and
// the smallest value is finished with none.
//
// writer: the producer, which stores the payload first. readers: consumers and
// daemon. published by: BufferBuilder.Commit and Finish. The zero value has no word: it
// says 0 and keeps nothing.
type PositionMarker struct{ word *Word32 }

// NewPositionMarker returns a marker in heap memory, for segments that no other
// process reads.
func NewPositionMarker() PositionMarker { return PositionMarker{new(Word32)} }

// Position is a marker's value at one moment.
type Position int32

// Load returns the marker's present value.
func (m PositionMarker) Load() Position {
	if m.word == nil {
		return 0
	}
	return Position(m.word.Load())
}

func (m PositionMarker) store(p Position) {
	if m.word != nil {
		m.word.storeRelease(uint32(p))
	}
}

// Bytes returns the number of bytes committed. A value that only a hostile
// writer stores may exceed the segment: the reader checks it.
func (p Position) Bytes() int {
	if p == finishedEmpty {
		return 0
	}
	if p < 0 {
		return int(-p)
	}
	return int(p)
}

// IsFinished reports whether nothing will be added.
func (p Position) IsFinished() bool { return p < 0 }

func finishedPosition(bytes int) Position {
	if bytes == 0 {
		return finishedEmpty
	}
	return Position(-bytes)
}
