package torture

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// A stream is what one producer sends to one subpartition: a sequence of records
// that both sides can make up, so that a consumer can tell each byte that is
// wrong and each record that is missing or comes twice.
type stream struct {
	Seed         uint64
	Producer     int
	Subpartition int
	// MaxSize bounds the records, in bytes; at least headerSize.
	MaxSize int
}

// headerSize is what a record begins with: producer, subpartition and sequence
// number.
const headerSize = 16

// splitMix is a step of the generator of that name.
func splitMix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s stream) key(seq uint64) uint64 {
	return splitMix(splitMix(s.Seed^uint64(s.Producer)<<32^uint64(s.Subpartition)) + seq)
}

// size returns the size of a record: mostly some hundred bytes, sometimes up to
// the largest.
func (s stream) size(seq uint64) int {
	key := s.key(seq)
	most := min(s.MaxSize, 1000)
	if key%64 == 0 {
		most = s.MaxSize
	}
	return headerSize + int(key>>8)%(most-headerSize+1)
}

// fill writes a record into b, which has its size.
func (s stream) fill(b []byte, seq uint64) {
	binary.LittleEndian.PutUint32(b, uint32(s.Producer))
	binary.LittleEndian.PutUint32(b[4:], uint32(s.Subpartition))
	binary.LittleEndian.PutUint64(b[8:], seq)
	word := s.key(seq)
	i := headerSize
	for ; i+8 <= len(b); i += 8 {
		binary.LittleEndian.PutUint64(b[i:], word)
		word += 0x9e3779b97f4a7c15
	}
	for ; i < len(b); i++ {
		b[i] = byte(word >> (8 * (i % 8)))
	}
}

// check compares a record with what it must be.
func (s stream) check(b []byte, seq uint64) error {
	if len(b) != s.size(seq) {
		return fmt.Errorf("record %d of %+v has %d bytes, want %d", seq, s, len(b), s.size(seq))
	}
	if got := binary.LittleEndian.Uint32(b[4:]); got != uint32(s.Subpartition) {
		return fmt.Errorf("record %d of %+v says it is for subpartition %d", seq, s, got)
	}
	if got := binary.LittleEndian.Uint64(b[8:]); got != seq {
		return fmt.Errorf("record %d of %+v says it is %d", seq, s, got)
	}
	word := s.key(seq)
	i := headerSize
	for ; i+8 <= len(b); i += 8 {
		if got := binary.LittleEndian.Uint64(b[i:]); got != word {
			return fmt.Errorf("record %d of %+v has %#x at %d of %d, want %#x", seq, s, got, i, len(b), word)
		}
		word += 0x9e3779b97f4a7c15
	}
	for ; i < len(b); i++ {
		if want := byte(word >> (8 * (i % 8))); b[i] != want {
			return fmt.Errorf("record %d of %+v has %#x at %d of %d, want %#x", seq, s, b[i], i, len(b), want)
		}
	}
	return nil
}

// producerOf returns which producer a record says it is from.
func producerOf(b []byte) (int, error) {
	if len(b) < headerSize {
		return 0, fmt.Errorf("record of %d bytes, want at least %d", len(b), headerSize)
	}
	return int(binary.LittleEndian.Uint32(b)), nil
}

func TestCheckFindsEveryWrongByte(t *testing.T) {
	s := stream{Seed: 1, Producer: 2, Subpartition: 3, MaxSize: 5000}
	for seq := range uint64(200) {
		b := make([]byte, s.size(seq))
		s.fill(b, seq)
		require.NoError(t, s.check(b, seq))
		require.Error(t, s.check(b, seq+1))
		for i := 4; i < len(b); i += 1 + i/8 {
			b[i] ^= 1
			require.Error(t, s.check(b, seq))
			b[i] ^= 1
		}
		require.Error(t, s.check(b[:len(b)-1], seq))
	}
}
