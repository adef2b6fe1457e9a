package ipc

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// ranges makes a list of firsts and lasts.
func ranges(bounds ...uint32) (list []*controlpb.SegmentRange) {
	for i := 0; i < len(bounds); i += 2 {
		list = append(list, &controlpb.SegmentRange{First: bounds[i], Last: bounds[i+1]})
	}
	return list
}

func TestSegmentsAreWrittenAsRunsInTheirOrder(t *testing.T) {
	for _, test := range []struct {
		name     string
		segments []int
		ranges   []*controlpb.SegmentRange
	}{
		{"none", nil, nil},
		{"one", []int{7}, ranges(7, 7)},
		{"a run", []int{0, 1, 2, 3}, ranges(0, 3)},
		{"two runs", []int{4, 5, 0, 1}, ranges(4, 5, 0, 1)},
		{"falling", []int{3, 2, 1}, ranges(3, 3, 2, 2, 1, 1)},
		{"gaps", []int{1, 3, 4, 9}, ranges(1, 1, 3, 4, 9, 9)},
	} {
		t.Run(test.name, func(t *testing.T) {
			encoded := EncodeSegments(test.segments)
			require.Len(t, encoded, len(test.ranges))
			for i := range encoded {
				require.True(t, proto.Equal(test.ranges[i], encoded[i]), "%v", encoded)
			}
			decoded, err := DecodeSegments("granted", encoded, 10)
			require.NoError(t, err)
			require.Equal(t, test.segments, decoded)
		})
	}
}

func TestAnyOrderOfSegmentsComesBack(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		limit := 1 + random.IntN(200)
		segments := random.Perm(limit)[:1+random.IntN(limit)]
		decoded, err := DecodeSegments("segments", EncodeSegments(segments), limit)
		require.NoError(t, err, "seed %d", seed)
		require.Equal(t, segments, decoded, "seed %d", seed)
	}
}

func TestSegmentRangesOutsideTheRegionAreProtocolErrors(t *testing.T) {
	const most = math.MaxUint32
	for _, test := range []struct {
		name   string
		ranges []*controlpb.SegmentRange
		limit  int
		want   string
	}{
		{"first above last", ranges(0, 1, 5, 4), 10, "granted[1]: got first 5 above last 4: protocol violation"},
		{"last at the limit", ranges(0, 10), 10, "granted[0]: got last 10, limit 10 segments: protocol violation"},
		{"everything there is", ranges(0, most), 10,
			"granted[0]: got last 4294967295, limit 10 segments: protocol violation"},
		{"no segments at all", ranges(0, 0), 0, "granted[0]: got last 0, limit 0 segments: protocol violation"},
		{"more than the region", ranges(0, 9, 0, 9), 10,
			"granted: got 20 or more segments, limit 10: protocol violation"},
		{"one twice", ranges(3, 3, 3, 3), 10, "granted: got segment 3 twice, limit once: protocol violation"},
		{"overlap", ranges(5, 7, 0, 1, 7, 8), 10, "granted: got segment 7 twice, limit once: protocol violation"},
		{"one inside another", ranges(0, 6, 2, 3), 10, "granted: got segment 2 twice, limit once: protocol violation"},
	} {
		t.Run(test.name, func(t *testing.T) {
			segments, err := DecodeSegments("granted", test.ranges, test.limit)
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			require.EqualError(t, err, test.want)
			require.Nil(t, segments)
		})
	}
}

func TestMissingSegmentRangeIsSegmentZero(t *testing.T) {
	segments, err := DecodeSegments("granted", []*controlpb.SegmentRange{nil}, 1)
	require.NoError(t, err)
	require.Equal(t, []int{0}, segments)
}

func TestRepeatedRangesDoNotAllocateBeyondTheRegion(t *testing.T) {
	list := make([]*controlpb.SegmentRange, MaxRangesPerMessage)
	for i := range list {
		list[i] = &controlpb.SegmentRange{Last: 1<<20 - 1}
	}
	allocated := testing.AllocsPerRun(10, func() {
		_, err := DecodeSegments("granted", list, 1<<20)
		require.ErrorIs(t, err, shuffle.ErrProtocol)
	})
	require.Less(t, allocated, float64(30))
}

func TestSegmentThatNoPoolCanHavePanics(t *testing.T) {
	require.Panics(t, func() { EncodeSegments([]int{-1}) })
	tooLarge := int64(math.MaxUint32) + 1
	if int64(int(tooLarge)) == tooLarge { // not where an int has 32 bits
		require.Panics(t, func() { EncodeSegments([]int{int(tooLarge)}) })
	}
}
