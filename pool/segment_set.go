package pool

import (
	"fmt"
	"math/bits"
)

// A SegmentSet tells which segments of a region are handed out. It gives out the
// lowest numbers first, so that the part of the region with memory behind it
// stays compact. It checks what comes back, so a holder that returns what it does
// not have is found out.
//
// It must not be used from several goroutines at once.
type SegmentSet struct {
	segments int
	taken    []uint64 // a bit per segment, 1 for handed out; bits past the end are 1
	low      int      // no word before this one has a free segment
}

// NewSegmentSet returns a set for a region with the segments 0 to segments-1, all
// of them free. A negative number counts as 0.
func NewSegmentSet(segments int) *SegmentSet {
	segments = max(0, segments)
	s := &SegmentSet{segments: segments, taken: make([]uint64, (segments+63)/64)}
	if rest := segments % 64; rest > 0 {
		s.taken[len(s.taken)-1] = ^uint64(0) << rest
	}
	return s
}

// Take hands out the n lowest free segments, or fewer if there are fewer.
func (s *SegmentSet) Take(n int) []int {
	if n <= 0 {
		return nil
	}
	segments := make([]int, 0, min(n, s.segments))
	for ; s.low < len(s.taken); s.low++ {
		for s.taken[s.low] != ^uint64(0) {
			if len(segments) == n {
				return segments
			}
			bit := bits.TrailingZeros64(^s.taken[s.low])
			s.taken[s.low] |= 1 << bit
			segments = append(segments, s.low*64+bit)
		}
	}
	return segments
}

// Return takes segments back. It returns ErrUnknownSegment, and takes none of
// them, if one is out of range, is not handed out or appears twice.
func (s *SegmentSet) Return(segments []int) error {
	for i, segment := range segments {
		if segment < 0 || segment >= s.segments || s.taken[segment/64]&(1<<(segment%64)) == 0 {
			for _, returned := range segments[:i] {
				s.taken[returned/64] |= 1 << (returned % 64)
			}
			return fmt.Errorf("return segment %d of a region of %d, which is not handed out: %w", segment, s.segments,
				ErrUnknownSegment)
		}
		s.taken[segment/64] &^= 1 << (segment % 64)
	}
	for _, segment := range segments {
		s.low = min(s.low, segment/64)
	}
	return nil
}

// IsTaken reports whether a segment, which must be one of the region, is handed out.
func (s *SegmentSet) IsTaken(segment int) bool { return s.taken[segment/64]&(1<<(segment%64)) != 0 }

// EachFree calls f for each run of segments that are not handed out, first to
// last, until it returns false.
func (s *SegmentSet) EachFree(f func(first, last int) bool) {
	for i := 0; i < s.segments; {
		if i%64 == 0 && s.taken[i/64] == ^uint64(0) {
			i += 64
			continue
		}
		if s.IsTaken(i) {
			i++
			continue
		}
		first := i
		for i < s.segments && !s.IsTaken(i) {
			i++
		}
		if !f(first, i-1) {
			return
		}
	}
}

// EachTaken calls f for each segment that is handed out, by rising number.
func (s *SegmentSet) EachTaken(f func(segment int)) {
	for w, word := range s.taken {
		for ; word != 0; word &= word - 1 {
			if i := w*64 + bits.TrailingZeros64(word); i < s.segments {
				f(i)
			}
		}
	}
}
