package bench

import (
	"encoding/binary"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Limits of the size of a record.
const (
	MinRecordSize = 16
	MaxRecordSize = 16 << 20
)

// A record begins with its stamp, little-endian: the producer in the upper 16
// bits, the producer's count of records before this one in the others. The rest
// is the same pattern in every record.
const (
	stampSize    = 8
	producerBits = 16
	countBits    = 64 - producerBits
	countMask    = 1<<countBits - 1
)

// MaxWorkers is the largest number of producers, and of consumers.
const MaxWorkers = 256

// framePrefix is the length of a record before it, big-endian.
const framePrefix = 4

// recordKeys is how many keys the records of an exchange between several workers
// have. Each block of so many consecutive records of a producer holds every key
// once, so the records of one key are recordKeys apart.
const recordKeys = 1024

// keyOfStamp scatters consecutive records over the keys.
func keyOfStamp(stamp uint64) uint32 { return uint32(stamp*0x9e3779b1) % recordKeys }

// pattern returns the body of every record of the given size.
func pattern(size int) []byte {
	random := rand.New(rand.NewPCG(1, 2))
	body := make([]byte, size-stampSize)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	return body
}

// blockSize is how many bytes of records a source holds ready: few enough for
// the first-level cache.
const blockSize = 16 << 10

// bytesPerLook is how many bytes of records are made between looks at the clock.
const bytesPerLook = 256 << 10

// A recordSource makes the records of one producer, in blocks of several, so
// that a record is not copied right after its stamp was stored, which would
// stall the processor and measure that. One goroutine uses it.
type recordSource struct {
	frames []byte // of one block: each record behind its length
	frame  int    // size of one
	count  int    // of records in a block
	next   uint64 // stamp of the next block's first record
	first  uint64 // stamp of the producer's first record

	deadline   time.Time
	untilClock int // bytes to make before the clock is looked at

	done *atomic.Int64 // counts bytes made, now and then, for display; may be nil

	left []byte // what of the block one has not returned

	flip uint64 // count of the record to spoil, 0 for none
	die  bool   // kill the process after some records
}

func newRecordSource(size, producer int) *recordSource {
	s := &recordSource{frame: framePrefix + size, first: uint64(producer) << countBits}
	s.next, s.untilClock = s.first, bytesPerLook
	s.count = max(2, blockSize/s.frame)
	body := pattern(size)
	for range s.count {
		s.frames = binary.BigEndian.AppendUint32(s.frames, uint32(size))
		s.frames = append(s.frames, make([]byte, stampSize)...)
		s.frames = append(s.frames, body...)
	}
	return s
}

// goWrong has a producer's fault happen.
func (s *recordSource) goWrong(f Fault) {
	switch f {
	case FlipByte:
		s.flip = faultAfter
	case DieProducing:
		s.die = true
	}
}

// runFor makes the source end after a time, give or take a block.
func (s *recordSource) runFor(d time.Duration) { s.deadline = time.Now().Add(d) }

// more makes the next block, unless the time is over.
func (s *recordSource) more() bool {
	if s.untilClock -= len(s.frames); s.untilClock <= 0 {
		s.untilClock = bytesPerLook
		if s.done != nil {
			s.done.Store(s.made() * int64(s.frame))
		}
		if !time.Now().Before(s.deadline) {
			return false
		}
	}
	s.fill()
	return true
}

func (s *recordSource) fill() {
	frames := s.frames
	for stamp := s.next; len(frames) > 0; stamp++ {
		binary.LittleEndian.PutUint64(frames[framePrefix:], stamp)
		frames = frames[s.frame:]
	}
	if s.flip > 0 {
		s.spoil()
	}
	if s.die && s.made() > faultAfter {
		die()
	}
	s.next += uint64(s.count)
}

// spoil flips the last byte of one record, and puts it right in the next block.
func (s *recordSource) spoil() {
	for i := range s.count {
		if s.next&countMask+uint64(i) == s.flip || s.next&countMask+uint64(i) == s.flip+uint64(s.count) {
			s.frames[(i+1)*s.frame-1] ^= 0x10
		}
	}
}

// framed returns a record of the block behind its length, record without it.
func (s *recordSource) framed(i int) []byte {
	at := i * s.frame
	return s.frames[at : at+s.frame : at+s.frame]
}

func (s *recordSource) record(i int) []byte { return s.framed(i)[framePrefix:] }

// one returns the next record behind its length, for a producer that sends one at
// a time. It is valid until the next call.
func (s *recordSource) one() []byte {
	if len(s.left) == 0 {
		s.fill()
		s.left = s.frames
	}
	frame := s.left[:s.frame:s.frame]
	s.left = s.left[s.frame:]
	return frame
}

// made counts the records of all blocks.
func (s *recordSource) made() int64 { return int64(s.next - s.first) }
