package memseg

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMarkerEncodesBytesAndEnd(t *testing.T) {
	for _, row := range []struct {
		name     string
		value    int32
		bytes    int
		finished bool
	}{
		{"empty", 0, 0, false},
		{"one byte", 1, 1, false},
		{"a segment", 32 << 10, 32 << 10, false},
		{"the largest", math.MaxInt32, math.MaxInt32, false},
		{"finished with one byte", -1, 1, true},
		{"finished with a segment", -32 << 10, 32 << 10, true},
		{"finished with the largest", -math.MaxInt32, math.MaxInt32, true},
		{"finished empty", math.MinInt32, 0, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			p := Position(row.value)
			require.Equal(t, row.bytes, p.Bytes())
			require.Equal(t, row.finished, p.IsFinished())
			if row.finished {
				require.Equal(t, p, finishedPosition(row.bytes))
			}

			m := NewPositionMarker()
			m.store(p)
			require.Equal(t, p, m.Load())
		})
	}
}

func TestFinishedEmptyDiffersFromEmpty(t *testing.T) {
	m := NewPositionMarker()
	b := NewBufferBuilder(make([]byte, 8), m)
	require.Equal(t, Position(0), m.Load())
	require.Equal(t, 0, b.Finish())
	require.Equal(t, Position(math.MinInt32), m.Load())
}

func TestMarkerIsTheLittleEndianWordOfTheLayout(t *testing.T) {
	l := testLayout(t, 2, 3, 64)
	region := mappedRegion(t, int(l.RegionSize()))
	NewRegionSegments(region, &l).Marker(2).store(finishedPosition(0x123456))
	start := l.MarkerOffset(2)
	// -0x123456 in two's complement.
	require.Equal(t, []byte{0xaa, 0xcb, 0xed, 0xff, 0, 0, 0, 0}, region.Bytes()[start:start+8])
}
