package memseg_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
)

// modelSegment is what a segment should be: a slice, and whether it was freed.
type modelSegment struct {
	mem   []byte
	freed bool
}

// refusal returns the error that an access to the range must meet, or nil.
func (m *modelSegment) refusal(offset, length int) error {
	switch {
	case m.freed:
		return memseg.ErrFreed
	case offset < 0 || length < 0 || length > len(m.mem) || offset > len(m.mem)-length:
		return memseg.ErrOutOfBounds
	}
	return nil
}

// refusalOfTwo is refusal for an operation with two segments.
func refusalOfTwo(m *modelSegment, offset, length int, other *modelSegment, otherOffset, otherLength int) error {
	if m.freed || other.freed {
		return memseg.ErrFreed
	}
	if err := m.refusal(offset, length); err != nil {
		return err
	}
	return other.refusal(otherOffset, otherLength)
}

// script reads the numbers of an operation sequence from the fuzzer's input.
type script struct{ input []byte }

func (s *script) byte() int {
	if len(s.input) == 0 {
		return 0
	}
	b := s.input[0]
	s.input = s.input[1:]
	return int(b)
}

// number is mostly near the sizes of the segments, and sometimes extreme.
func (s *script) number() int {
	switch b := s.byte(); {
	case b < 200:
		return b
	case b < 240:
		return 200 - b
	default:
		return [...]int{
			math.MaxInt, math.MinInt, math.MaxInt32, math.MinInt32, math.MaxInt - 7, math.MinInt + 7, math.MaxInt - 100, -256,
		}[b%8]
	}
}

func (s *script) bits() uint64 {
	var b [8]byte
	s.input = s.input[copy(b[:], s.input):]
	return binary.BigEndian.Uint64(b[:])
}

// FuzzSegmentMatchesPlainSlices runs a sequence of operations on two segments of
// different memory and on two plain slices, and compares results, errors and
// contents.
func FuzzSegmentMatchesPlainSlices(f *testing.F) {
	mapped := mapBeforeGuardPage(f, math.MaxUint8)
	f.Fuzz(func(t *testing.T, size, otherSize uint8, input []byte) {
		models := [2]*modelSegment{{mem: make([]byte, size)}, {mem: make([]byte, otherSize)}}
		segments := [2]*memseg.MemorySegment{
			memseg.NewSegment(make([]byte, size), 0, nil),
			memseg.NewSegment(mapped[math.MaxUint8-int(otherSize):], 1, nil), // ends at the guard page
		}
		for i := range segments {
			fill, err := segments[i].Bytes()
			require.NoError(t, err)
			for j := range fill {
				fill[j] = byte(i + 3*j)
			}
			copy(models[i].mem, fill)
		}
		views := [2][]byte{contentOf(t, segments[0]), contentOf(t, segments[1])}

		for s := (&script{input}); len(s.input) > 0; {
			operation, which := s.byte(), s.byte()
			i, j := which&1, which>>1&1
			runOperation(t, s, operation%11, segments[i], segments[j], models[i], models[j])
			for i := range views {
				require.True(t, bytes.Equal(models[i].mem, views[i]), "operation %d on segment %d", operation%11, i)
			}
		}
	})
}

func runOperation(t *testing.T, s *script, operation int, a, b *memseg.MemorySegment, m, n *modelSegment) {
	// want checks the error and reports whether the operation went through.
	want := func(want, got error) bool {
		require.ErrorIs(t, got, want)
		return want == nil
	}
	switch operation {
	case 0: // put a scalar
		access, index, bits := scalars[s.byte()%len(scalars)], s.number(), s.bits()
		if want(m.refusal(index, access.width), access.put(a, index, bits)) {
			copy(m.mem[index:], access.encode(bits))
		}
	case 1: // get a scalar
		access, index := scalars[s.byte()%len(scalars)], s.number()
		bits, err := access.get(a, index)
		if want(m.refusal(index, access.width), err) {
			expected := bytes.Clone(m.mem[index : index+access.width])
			if access.name == "bool" && expected[0] != 0 {
				expected[0] = 1
			}
			require.Equal(t, expected, access.encode(bits), access.name)
		}
	case 2, 3: // bulk put and get of a part of a slice
		slice, index, offset, length := make([]byte, s.byte()), s.number(), s.number(), s.number()
		for i := range slice {
			slice[i] = byte(5 * i)
		}
		refusal := (&modelSegment{mem: slice}).refusal(offset, length)
		if refusal == nil {
			refusal = m.refusal(index, length)
		}
		if operation == 2 {
			if want(refusal, a.PutRange(index, slice, offset, length)) {
				copy(m.mem[index:], slice[offset:offset+length])
			}
			return
		}
		expected := bytes.Clone(slice)
		if want(refusal, a.GetRange(index, slice, offset, length)) {
			copy(expected[offset:], m.mem[index:index+length])
		}
		require.Equal(t, expected, slice)
	case 4: // bulk put and get of a whole slice
		slice, index := make([]byte, s.byte()), s.number()
		for i := range slice {
			slice[i] = byte(7 * i)
		}
		refusal := m.refusal(index, len(slice))
		if want(refusal, a.Put(index, slice)) {
			copy(m.mem[index:], slice)
		}
		got := make([]byte, len(slice))
		if want(refusal, a.Get(index, got)) {
			require.Equal(t, slice, got)
		}
	case 5:
		offset, otherOffset, length := s.number(), s.number(), s.number()
		if want(refusalOfTwo(m, offset, length, n, otherOffset, length), a.CopyTo(offset, b, otherOffset, length)) {
			copy(n.mem[otherOffset:], bytes.Clone(m.mem[offset:offset+length]))
		}
	case 6:
		scratch, offset, otherOffset, length := make([]byte, s.byte()), s.number(), s.number(), s.number()
		refusal := memseg.ErrOutOfBounds
		if length <= len(scratch) {
			refusal = refusalOfTwo(m, offset, length, n, otherOffset, length)
		}
		if want(refusal, a.SwapBytes(scratch, b, offset, otherOffset, length)) {
			mine, theirs := bytes.Clone(m.mem[offset:offset+length]), bytes.Clone(n.mem[otherOffset:otherOffset+length])
			copy(m.mem[offset:], theirs)
			copy(n.mem[otherOffset:], mine)
		}
	case 7:
		offset, otherOffset, length, otherLength := s.number(), s.number(), s.number(), s.number()
		got, err := a.CompareRanges(b, offset, otherOffset, length, otherLength)
		if want(refusalOfTwo(m, offset, length, n, otherOffset, otherLength), err) {
			require.Equal(t, bytes.Compare(m.mem[offset:offset+length], n.mem[otherOffset:otherOffset+otherLength]), got)
		}
	case 8:
		offset, otherOffset, length := s.number(), s.number(), s.number()
		refusal := refusalOfTwo(m, offset, length, n, otherOffset, length)
		order, err := a.Compare(b, offset, otherOffset, length)
		if want(refusal, err) {
			require.Equal(t, bytes.Compare(m.mem[offset:offset+length], n.mem[otherOffset:otherOffset+length]), order)
		}
		equal, err := a.EqualTo(b, offset, otherOffset, length)
		if length <= 0 {
			require.NoError(t, err)
			require.True(t, equal)
		} else if want(refusal, err) {
			require.Equal(t, order == 0, equal)
		}
	case 9:
		offset, length := s.number(), s.number()
		view, err := a.Wrap(offset, length)
		if want(m.refusal(offset, length), err) {
			require.Equal(t, m.mem[offset:offset+length], view)
			require.Equal(t, length, cap(view))
		}
	case 10: // free, seldom enough that most of a sequence runs on live segments
		if s.byte() < 0xf0 {
			return
		}
		var refusal error
		if m.freed {
			refusal = memseg.ErrFreed
		}
		want(refusal, a.Free())
		m.freed = true
		require.True(t, a.IsFreed())
		require.Equal(t, len(m.mem), a.Size())
	}
}
