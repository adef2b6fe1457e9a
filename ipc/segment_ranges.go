package ipc

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// MaxRangesPerMessage is the number of segment ranges that fit a message
// whatever their values, with room for its other fields. Longer lists go out in
// several messages (slices.Chunk).
const MaxRangesPerMessage = 8192

// EncodeSegments writes segment numbers as inclusive ranges: each run of
// consecutive, rising numbers becomes one. The order is kept, so DecodeSegments
// returns the same list. A number that is negative or above 32
// bits panics: segments come from a pool, never from a peer.
func EncodeSegments(segments []int) []*controlpb.SegmentRange {
	var ranges []*controlpb.SegmentRange
	for i, segment := range segments {
		if segment < 0 || int64(segment) > math.MaxUint32 {
			panic(fmt.Sprintf("ipc: segment number %d outside 0 to %d", segment, uint32(math.MaxUint32)))
		}
		if i > 0 && segment == segments[i-1]+1 {
			ranges[len(ranges)-1].Last = uint32(segment)
			continue
		}
		ranges = append(ranges, &controlpb.SegmentRange{First: uint32(segment), Last: uint32(segment)})
	}
	return ranges
}

// DecodeSegments reads what EncodeSegments wrote, in the same order. It checks
// that every range lies below limit, the number of segments of the region, and
// that no segment is named twice, so the result holds at most limit numbers; it
// is allocated after the checks. Otherwise the error names the field of the
// message, what it held and the limit, and wraps shuffle.ErrProtocol.
func DecodeSegments(field string, ranges []*controlpb.SegmentRange, limit int) ([]int, error) {
	if len(ranges) == 0 {
		return nil, nil
	}
	total, rising := int64(0), true
	for i, r := range ranges {
		first, last := r.GetFirst(), r.GetLast()
		if first > last {
			return nil, fmt.Errorf("%s[%d]: got first %d above last %d: %w", field, i, first, last, shuffle.ErrProtocol)
		}
		if int64(last) >= int64(limit) {
			return nil, fmt.Errorf("%s[%d]: got last %d, limit %d segments: %w", field, i, last, limit,
				shuffle.ErrProtocol)
		}
		rising = rising && (i == 0 || first > ranges[i-1].GetLast())
		total += int64(last-first) + 1
		if total > int64(limit) {
			return nil, fmt.Errorf("%s: got %d or more segments, limit %d: %w", field, total, limit,
				shuffle.ErrProtocol)
		}
	}
	if !rising {
		if segment, twice := overlap(ranges); twice {
			return nil, fmt.Errorf("%s: got segment %d twice, limit once: %w", field, segment, shuffle.ErrProtocol)
		}
	}
	segments := make([]int, 0, total)
	for _, r := range ranges {
		for segment := int(r.GetFirst()); segment <= int(r.GetLast()); segment++ {
			segments = append(segments, segment)
		}
	}
	return segments, nil
}

// overlap finds a segment that lies in two of the ranges.
func overlap(ranges []*controlpb.SegmentRange) (segment uint32, found bool) {
	sorted := slices.SortedFunc(slices.Values(ranges), func(a, b *controlpb.SegmentRange) int {
		return cmp.Compare(a.GetFirst(), b.GetFirst())
	})
	for i, r := range sorted[1:] {
		if r.GetFirst() <= sorted[i].GetLast() {
			return r.GetFirst(), true
		}
	}
	return 0, false
}
