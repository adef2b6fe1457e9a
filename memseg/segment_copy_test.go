package memseg_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
)

// forEachPair runs f for every ordered pair of kinds.
func forEachPair(t *testing.T, f func(t *testing.T, first, second segmentKind)) {
	for _, first := range segmentKinds {
		for _, second := range segmentKinds {
			t.Run(first.name+" and "+second.name, func(t *testing.T) { f(t, first, second) })
		}
	}
}

func forEachPairAndPage(t *testing.T, f func(t *testing.T, first, second segmentKind, page int)) {
	forEachPair(t, func(t *testing.T, first, second segmentKind) {
		for _, page := range pageSizes {
			t.Run(fmt.Sprintf("%dKiB", page>>10), func(t *testing.T) { f(t, first, second, page) })
		}
	})
}

// segmentOf returns a segment that holds content.
func (k segmentKind) segmentOf(t testing.TB, content []byte) *memseg.MemorySegment {
	mem := k.alloc(t, len(content))
	copy(mem, content)
	return memseg.NewSegment(mem, 0, nil)
}

func contentOf(t *testing.T, s *memseg.MemorySegment) []byte {
	all, err := s.Bytes()
	require.NoError(t, err)
	return all
}

// outsideRanges are the ranges of at least one bad number in size bytes.
func outsideRanges(size int) [][2]int {
	return [][2]int{
		{-1, 1}, {0, -1}, {-1, -1}, {0, size + 1}, {size, 1}, {size + 1, 0}, {size - 2, 3},
		{math.MaxInt, 1}, {1, math.MaxInt}, {math.MaxInt, math.MaxInt}, {math.MaxInt32, 1}, {1, math.MaxInt32},
		{math.MinInt, 0}, {0, math.MinInt}, {math.MinInt, math.MinInt}, {math.MinInt, math.MaxInt}, {math.MinInt32, 1},
	}
}

func TestBulkAccessOnATinySegmentIsOutOfBounds(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		for _, size := range []int{0, 1} {
			s := kind.segment(t, size)
			dst := []byte{7, 8, 9}
			err := s.Get(0, dst)
			requireAccessError(t, err, memseg.ErrOutOfBounds, "get 3 bytes", 0, 3, size)
			require.Equal(t, []byte{7, 8, 9}, dst)
			err = s.Put(0, []byte{1, 2, 3})
			requireAccessError(t, err, memseg.ErrOutOfBounds, "put 3 bytes", 0, 3, size)
			require.Equal(t, make([]byte, size), contentOf(t, s))

			require.NoError(t, s.Get(size, nil), "the empty range at the end is legal")
			require.NoError(t, s.Put(size, nil))
			require.ErrorIs(t, s.Get(size+1, nil), memseg.ErrOutOfBounds)
		}
	})
}

func TestBulkPutAtRandomPlacesReadsBackAndTouchesNothingElse(t *testing.T) {
	seed := newSeed(t)
	forEachKindAndPage(t, func(t *testing.T, kind segmentKind, page int) {
		rnd := newRand(seed)
		source := randomBytes(rnd, 2*page)
		s, model := kind.segment(t, page), make([]byte, page)
		for range 50 {
			length := rnd.IntN(page / 8)
			from, index := rnd.IntN(len(source)-length+1), rnd.IntN(page-length+1)
			require.NoError(t, s.PutRange(index, source, from, length))
			copy(model[index:], source[from:from+length])
			require.True(t, bytes.Equal(model, contentOf(t, s)), "put %d bytes at %d", length, index)

			into := bytes.Repeat([]byte{0xee}, page)
			at := rnd.IntN(page - length + 1)
			require.NoError(t, s.GetRange(index, into, at, length))
			want := bytes.Repeat([]byte{0xee}, page)
			copy(want[at:], model[index:index+length])
			require.True(t, bytes.Equal(want, into), "get %d bytes at %d", length, index)

			whole := make([]byte, length)
			require.NoError(t, s.Get(index, whole))
			require.True(t, bytes.Equal(model[index:index+length], whole))
			require.NoError(t, s.Put(at, whole))
			copy(model[at:], whole)
		}
		for index := 0; index <= page-8; index += 8 {
			if got, err := s.GetUint64LE(index); err != nil || got != binary.LittleEndian.Uint64(model[index:]) {
				require.NoError(t, err)
				require.Equal(t, binary.LittleEndian.Uint64(model[index:]), got, "at %d", index)
			}
		}
	})
}

func TestBulkAccessOutsideTheSegmentIsRefusedWhole(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		const size = 64
		content := bytes.Repeat([]byte{0x11}, size)
		s := kind.segmentOf(t, content)
		for _, index := range []int{-1, size - 2, size, size + 1, math.MaxInt, math.MaxInt - 2, math.MinInt} {
			dst := []byte{7, 8, 9}
			requireAccessError(t, s.Get(index, dst), memseg.ErrOutOfBounds, "get 3 bytes", index, 3, size)
			require.Equal(t, []byte{7, 8, 9}, dst)
			requireAccessError(t, s.Put(index, dst), memseg.ErrOutOfBounds, "put 3 bytes", index, 3, size)
			require.Equal(t, content, contentOf(t, s))
		}
	})
}

func TestRangeOfTheSliceIsCheckedBeforeTheSegment(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		const size = 64
		content := bytes.Repeat([]byte{0x11}, size)
		s := kind.segmentOf(t, content)
		slice := bytes.Repeat([]byte{0x22}, 8)
		check := func() {
			for _, r := range outsideRanges(len(slice)) {
				offset, length := r[0], r[1]
				require.EqualError(t, s.GetRange(0, slice, offset, length),
					fmt.Sprintf("get %d bytes to %d of a slice of 8 bytes: out of bounds", length, offset))
				err := s.GetRange(0, slice, offset, length)
				require.ErrorIs(t, err, memseg.ErrOutOfBounds)
				require.EqualError(t, s.PutRange(0, slice, offset, length),
					fmt.Sprintf("put %d bytes from %d of a slice of 8 bytes: out of bounds", length, offset))
				err = s.PutRange(0, slice, offset, length)
				require.ErrorIs(t, err, memseg.ErrOutOfBounds)
			}
		}
		check()
		require.Equal(t, content, contentOf(t, s))
		require.NoError(t, s.Free())
		check()
		require.Equal(t, bytes.Repeat([]byte{0x22}, 8), slice)

		for _, length := range []int{0, 8} {
			for _, index := range []int{0, size, math.MaxInt, math.MinInt} {
				require.ErrorIs(t, s.GetRange(index, slice, 0, length), memseg.ErrFreed)
				require.ErrorIs(t, s.PutRange(index, slice, 0, length), memseg.ErrFreed)
				require.ErrorIs(t, s.Get(index, slice[:length]), memseg.ErrFreed)
				require.ErrorIs(t, s.Put(index, slice[:length]), memseg.ErrFreed)
			}
		}
	})
}

func TestCopyBetweenSegmentsMovesExactlyTheRange(t *testing.T) {
	seed := newSeed(t)
	forEachPairAndPage(t, func(t *testing.T, first, second segmentKind, page int) {
		rnd := newRand(seed)
		source, target := randomBytes(rnd, page), randomBytes(rnd, page)
		from, to := first.segmentOf(t, source), second.segmentOf(t, target)
		for range 50 {
			length := rnd.IntN(page/8 + 1)
			offset, targetOffset := rnd.IntN(page-length+1), rnd.IntN(page-length+1)
			require.NoError(t, from.CopyTo(offset, to, targetOffset, length))
			copy(target[targetOffset:], source[offset:offset+length])
		}
		require.True(t, bytes.Equal(target, contentOf(t, to)))
		require.NoError(t, from.CopyTo(0, to, 0, page))
		require.True(t, bytes.Equal(source, contentOf(t, to)))
		require.True(t, bytes.Equal(source, contentOf(t, from)), "the source changed")
		require.NoError(t, from.CopyTo(page, to, page, 0))
	})
}

func TestCopyWithinASegmentMayOverlap(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		for _, row := range []struct {
			offset, target int
			want           string
		}{
			{0, 2, "ababcdefij"},
			{2, 0, "cdefghghij"},
			{3, 3, "abcdefghij"},
		} {
			s := kind.segmentOf(t, []byte("abcdefghij"))
			require.NoError(t, s.CopyTo(row.offset, s, row.target, 6))
			require.Equal(t, row.want, string(contentOf(t, s)))
		}
	})
}

func TestSwappingRandomChunksExchangesTwoHalves(t *testing.T) {
	seed := newSeed(t)
	forEachPairAndPage(t, func(t *testing.T, first, second segmentKind, page int) {
		rnd := newRand(seed)
		left, right := randomBytes(rnd, page), randomBytes(rnd, page)
		a, b := first.segmentOf(t, left), second.segmentOf(t, right)
		half, scratch := page/2, make([]byte, page/8)
		for done := 0; done < half; {
			chunk := min(rnd.IntN(len(scratch))+1, half-done)
			require.NoError(t, a.SwapBytes(scratch, b, half+done, half+done, chunk))
			done += chunk
		}
		require.True(t, bytes.Equal(append(bytes.Clone(left[:half]), right[half:]...), contentOf(t, a)))
		require.True(t, bytes.Equal(append(bytes.Clone(right[:half]), left[half:]...), contentOf(t, b)))
	})
}

func TestSwapAtDifferentOffsetsLeavesTheOldBytesInScratch(t *testing.T) {
	forEachPair(t, func(t *testing.T, first, second segmentKind) {
		a, b := first.segmentOf(t, []byte("abcdef")), second.segmentOf(t, []byte("uvwxyz"))
		scratch := []byte("......")
		require.NoError(t, a.SwapBytes(scratch, b, 1, 3, 2))
		require.Equal(t, "axydef", string(contentOf(t, a)))
		require.Equal(t, "uvwbcz", string(contentOf(t, b)))
		require.Equal(t, "bc....", string(scratch))
	})
}

func TestSwapWithinASegment(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		for _, row := range []struct {
			first, second int
			want          string
		}{
			{0, 3, "defabcgh"},
			{5, 0, "fghdeabc"},
			{0, 1, "babcefgh"},
			{1, 0, "bcdcefgh"},
		} {
			s := kind.segmentOf(t, []byte("abcdefgh"))
			require.NoError(t, s.SwapBytes(make([]byte, 3), s, row.first, row.second, 3))
			require.Equal(t, row.want, string(contentOf(t, s)))
		}
	})
}

func TestSwapChecksScratchFirst(t *testing.T) {
	forEachPair(t, func(t *testing.T, first, second segmentKind) {
		a, b := first.segmentOf(t, []byte("abcdef")), second.segmentOf(t, []byte("uvwxyz"))
		err := a.SwapBytes(make([]byte, 3), b, 0, 0, 4)
		require.EqualError(t, err, "swap 4 bytes through a scratch slice of 3 bytes: out of bounds")
		require.ErrorIs(t, err, memseg.ErrOutOfBounds)
		require.Equal(t, "abcdef", string(contentOf(t, a)))
		require.Equal(t, "uvwxyz", string(contentOf(t, b)))
		require.NoError(t, b.Free())
		require.ErrorIs(t, a.SwapBytes(make([]byte, 3), b, 0, 0, 4), memseg.ErrOutOfBounds)
		require.ErrorIs(t, a.SwapBytes(make([]byte, 4), b, 0, 0, 4), memseg.ErrFreed)
	})
}

func TestComparePrefixesOfABCAndABCD(t *testing.T) {
	forEachPair(t, func(t *testing.T, first, second segmentKind) {
		abc, abcd := first.segmentOf(t, []byte("abc")), second.segmentOf(t, []byte("abcd"))
		for _, row := range []struct{ offset, length, otherLength, want int }{
			{0, 3, 4, -1}, {0, 3, 3, 0}, {0, 3, 2, 1},
			{1, 2, 3, -1}, {1, 2, 2, 0}, {1, 2, 1, 1},
			{0, 0, 1, -1}, {0, 0, 0, 0}, {0, 1, 0, 1}, {3, 0, 0, 0},
		} {
			got, err := abc.CompareRanges(abcd, row.offset, row.offset, row.length, row.otherLength)
			require.NoError(t, err)
			require.Equal(t, row.want, got, "%+v", row)
			got, err = abcd.CompareRanges(abc, row.offset, row.offset, row.otherLength, row.length)
			require.NoError(t, err)
			require.Equal(t, -row.want, got, "%+v, the other way round", row)
		}
	})
}

func TestCompareTreatsBytesAsUnsigned(t *testing.T) {
	forEachPair(t, func(t *testing.T, first, second segmentKind) {
		for _, row := range []struct {
			left, right []byte
			want        int
		}{
			{[]byte{0x7f}, []byte{0x80}, -1},
			{[]byte{0xff}, []byte{0x00}, 1},
			{[]byte{0, 0, 0, 0, 0, 0, 0, 0x80, 1}, []byte{0, 0, 0, 0, 0, 0, 0, 0x7f, 2}, 1},
			{[]byte{0x80, 0, 0, 0, 0, 0, 0, 0}, []byte{0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, 1},
			{[]byte{1, 0, 0, 0, 0, 0, 0, 2}, []byte{2, 0, 0, 0, 0, 0, 0, 1}, -1},
		} {
			a, b := first.segmentOf(t, row.left), second.segmentOf(t, row.right)
			got, err := a.Compare(b, 0, 0, len(row.left))
			require.NoError(t, err)
			require.Equal(t, row.want, got, "%x %x", row.left, row.right)
			equal, err := a.EqualTo(b, 0, 0, len(row.left))
			require.NoError(t, err)
			require.False(t, equal)
		}
	})
}

func TestCompareAndEqualAgreeWithTheFirstDifference(t *testing.T) {
	seed := newSeed(t)
	forEachPairAndPage(t, func(t *testing.T, first, second segmentKind, page int) {
		rnd := newRand(seed)
		a, b := first.segment(t, page), second.segment(t, page)
		for round := range 500 {
			// Four bytes of 0..3 are equal often enough to see all three outcomes; every
			// second round they stand behind a long common beginning.
			prefix := randomBytes(rnd, (round%2)*rnd.IntN(100))
			tuples := [2][]byte{bytes.Clone(prefix), bytes.Clone(prefix)}
			for i := range tuples {
				for range 4 {
					tuples[i] = append(tuples[i], byte(rnd.IntN(4)<<6))
				}
			}
			length := len(prefix) + 4
			offset, otherOffset := rnd.IntN(page-length+1), rnd.IntN(page-length+1)
			require.NoError(t, a.Put(offset, tuples[0]))
			require.NoError(t, b.Put(otherOffset, tuples[1]))

			want := 0
			for i := 0; i < length && want == 0; i++ {
				want = sign(int(tuples[0][i]) - int(tuples[1][i]))
			}
			got, err := a.Compare(b, offset, otherOffset, length)
			require.NoError(t, err)
			require.Equal(t, want, got, "%x %x", tuples[0], tuples[1])
			equal, err := a.EqualTo(b, offset, otherOffset, length)
			require.NoError(t, err)
			require.Equal(t, want == 0, equal, "%x %x", tuples[0], tuples[1])
		}
	})
}

func sign(n int) int { return min(max(n, -1), 1) }

func TestEqualOfNothingIsTrueWithoutLooking(t *testing.T) {
	freed, alive := memseg.NewSegment(nil, 0, nil), memseg.NewSegment(make([]byte, 4), 0, nil)
	require.NoError(t, freed.Free())
	for _, length := range []int{0, -1, math.MinInt} {
		for _, other := range []*memseg.MemorySegment{freed, alive} {
			equal, err := other.EqualTo(freed, -5, math.MaxInt, length)
			require.NoError(t, err)
			require.True(t, equal)
		}
	}
}

// twoSegmentOperations are the operations with two segments and two ranges of
// the same length.
var twoSegmentOperations = []struct {
	verb string
	call func(s, other *memseg.MemorySegment, offset, otherOffset, length int) error
}{
	{"copy", func(s, other *memseg.MemorySegment, offset, otherOffset, length int) error {
		return s.CopyTo(offset, other, otherOffset, length)
	}},
	{"swap", func(s, other *memseg.MemorySegment, offset, otherOffset, length int) error {
		return s.SwapBytes(make([]byte, max(0, min(length, 1024))), other, offset, otherOffset, length)
	}},
	{"compare", func(s, other *memseg.MemorySegment, offset, otherOffset, length int) error {
		_, err := s.Compare(other, offset, otherOffset, length)
		return err
	}},
	{"compare", func(s, other *memseg.MemorySegment, offset, otherOffset, length int) error {
		_, err := s.CompareRanges(other, offset, otherOffset, length, length)
		return err
	}},
	{"compare", func(s, other *memseg.MemorySegment, offset, otherOffset, length int) error {
		_, err := s.EqualTo(other, offset, otherOffset, length)
		return err
	}},
}

func TestTwoSegmentOperationOutsideEitherIsOutOfBoundsAndMovesNothing(t *testing.T) {
	forEachPair(t, func(t *testing.T, first, second segmentKind) {
		const size, otherSize = 16, 24
		mine, theirs := bytes.Repeat([]byte{1}, size), bytes.Repeat([]byte{2}, otherSize)
		a, b := first.segmentOf(t, mine), second.segmentOf(t, theirs)
		for _, op := range twoSegmentOperations {
			for _, row := range []struct{ offset, otherOffset, length, refusedAt, refusedSize int }{
				{-1, 0, 4, -1, size},
				{13, 0, 4, 13, size},
				{0, 0, 17, 0, size},
				{math.MaxInt, 0, 4, math.MaxInt, size},
				{math.MinInt, 0, 4, math.MinInt, size},
				{0, -1, 4, -1, otherSize},
				{0, 21, 4, 21, otherSize},
				{0, math.MaxInt, 4, math.MaxInt, otherSize},
				{0, math.MinInt, 4, math.MinInt, otherSize},
				{-2, -3, 4, -2, size},
			} {
				err := op.call(a, b, row.offset, row.otherOffset, row.length)
				requireAccessError(t, err, memseg.ErrOutOfBounds,
					fmt.Sprintf("%s %d bytes", op.verb, row.length), row.refusedAt, row.length, row.refusedSize)
			}
		}
		for _, length := range []int{-1, math.MinInt} {
			require.ErrorIs(t, a.CopyTo(0, b, 0, length), memseg.ErrOutOfBounds)
			require.ErrorIs(t, a.SwapBytes(nil, b, 0, 0, length), memseg.ErrOutOfBounds)
			_, err := a.Compare(b, 0, 0, length)
			require.ErrorIs(t, err, memseg.ErrOutOfBounds)
			_, err = a.CompareRanges(b, 0, 0, 1, length)
			require.ErrorIs(t, err, memseg.ErrOutOfBounds)
		}
		_, err := a.CompareRanges(b, 0, 0, 16, 25)
		require.ErrorIs(t, err, memseg.ErrOutOfBounds)
		require.Equal(t, mine, contentOf(t, a))
		require.Equal(t, theirs, contentOf(t, b))
	})
}

func TestTwoSegmentOperationReportsFreedBeforeBounds(t *testing.T) {
	forEachPair(t, func(t *testing.T, first, second segmentKind) {
		for _, row := range []struct {
			name                   string
			freeThis, freeOther    bool
			refusedAt, refusedSize int
		}{
			{"this one freed", true, false, 2, 16},
			{"other one freed", false, true, 3, 24},
			{"both freed", true, true, 2, 16},
		} {
			t.Run(row.name, func(t *testing.T) {
				a, b := first.segment(t, 16), second.segment(t, 24)
				if row.freeThis {
					require.NoError(t, a.Free())
				}
				if row.freeOther {
					require.NoError(t, b.Free())
				}
				for _, op := range twoSegmentOperations {
					err := op.call(a, b, 2, 3, 8)
					requireAccessError(t, err, memseg.ErrFreed, op.verb+" 8 bytes", row.refusedAt, 8, row.refusedSize)
					require.ErrorIs(t, op.call(a, b, -1, math.MaxInt, 8), memseg.ErrFreed)
					require.ErrorIs(t, op.call(a, b, math.MaxInt, -1, 8), memseg.ErrFreed)
				}
				require.ErrorIs(t, a.CopyTo(0, b, 0, 0), memseg.ErrFreed, "even of nothing")
				require.ErrorIs(t, a.CopyTo(0, b, 0, -1), memseg.ErrFreed)
			})
		}
	})
}

func TestWrapIsAViewOfExactlyItsRange(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		const page = 1024
		mem := kind.alloc(t, page)
		s := memseg.NewSegment(mem, 0, nil)
		for _, row := range [][2]int{{13, 47}, {500, 267}, {0, page}, {page, 0}, {page - 1, 1}} {
			offset, length := row[0], row[1]
			clear(mem)
			view, err := s.Wrap(offset, length)
			require.NoError(t, err)
			require.Len(t, view, length)
			require.Equal(t, length, cap(view), "a view must not grow into what lies behind it")
			for i := range view {
				view[i] = 0xaa
			}
			want := make([]byte, page)
			copy(want[offset:], bytes.Repeat([]byte{0xaa}, length))
			require.Equal(t, want, mem)
		}
		for _, r := range outsideRanges(page) {
			_, err := s.Wrap(r[0], r[1])
			requireAccessError(t, err, memseg.ErrOutOfBounds, fmt.Sprintf("wrap %d bytes", r[1]), r[0], r[1], page)
		}
		for _, r := range [][2]int{{-1, 20}, {10, -20}, {10, page}} {
			_, err := s.Wrap(r[0], r[1])
			require.ErrorIs(t, err, memseg.ErrOutOfBounds)
		}
		require.NoError(t, s.Free())
		for _, r := range [][2]int{{13, 47}, {0, 0}, {-1, 20}} {
			_, err := s.Wrap(r[0], r[1])
			require.ErrorIs(t, err, memseg.ErrFreed)
		}
	})
}

func TestViewTakenBeforeFreeStaysReadableAndWritable(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		s := kind.segment(t, 1024)
		require.NoError(t, s.PutUint32LE(112, 651797651))
		require.NoError(t, s.PutUint32BE(187, 992288337))
		view, err := s.Wrap(0, 1024)
		require.NoError(t, err)
		require.NoError(t, s.Free())
		require.EqualValues(t, 651797651, binary.LittleEndian.Uint32(view[112:]))
		require.EqualValues(t, 992288337, binary.BigEndian.Uint32(view[187:]))
		view[0] = 0x5a
		require.EqualValues(t, 0x5a, view[0])
	})
}

func TestBytesIsTheSegmentsMemoryAndEndsWithIt(t *testing.T) {
	forEachKind(t, func(t *testing.T, kind segmentKind) {
		region := kind.alloc(t, 96)
		s := memseg.NewSegment(region[32:64], 1, nil)
		all, err := s.Bytes()
		require.NoError(t, err)
		require.Len(t, all, 32)
		require.Equal(t, 32, cap(all))
		all[0], all[31] = 1, 2
		require.EqualValues(t, 1, region[32])
		require.EqualValues(t, 2, region[63])
		require.NoError(t, s.PutByte(5, 3))
		require.EqualValues(t, 3, all[5])
		_ = append(all, 9)
		require.Zero(t, region[64], "append reached the next segment")
		require.NoError(t, s.Free())
		_, err = s.Bytes()
		require.ErrorIs(t, err, memseg.ErrFreed)
	})
}

func TestBulkOperationsThatSucceedDoNotAllocate(t *testing.T) {
	a, b := memseg.NewSegment(make([]byte, 64), 0, nil), memseg.NewSegment(make([]byte, 64), 1, nil)
	buf, scratch := make([]byte, 16), make([]byte, 16)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, compareErr := a.Compare(b, 0, 8, 16)
		_, equalErr := a.EqualTo(b, 0, 8, 16)
		_, wrapErr := a.Wrap(8, 16)
		for _, err := range [...]error{
			a.Put(1, buf), a.GetRange(1, buf, 2, 3), a.CopyTo(1, b, 2, 16), a.SwapBytes(scratch, b, 1, 2, 16),
			compareErr, equalErr, wrapErr,
		} {
			if err != nil {
				t.Error(err)
			}
		}
	}))
}
