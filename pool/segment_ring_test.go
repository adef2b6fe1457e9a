package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSegmentRingIsFirstInFirstOutAcrossGrowthAndWrapping(t *testing.T) {
	var r segmentRing
	_, ok := r.pop()
	require.False(t, ok)
	next, want := 0, 0
	for room := 1; room < 70; room++ {
		r.reserve(room)
		for r.len() < room {
			r.push(next)
			next++
		}
		for range (room + 1) / 2 { // leaves the head in the middle when it grows next
			segment, ok := r.pop()
			require.True(t, ok)
			require.Equal(t, want, segment)
			want++
		}
	}
	for r.len() > 0 {
		segment, _ := r.pop()
		require.Equal(t, want, segment)
		want++
	}
	require.Equal(t, next, want)
}

func TestSegmentRingPanicsWithoutRoom(t *testing.T) {
	var r segmentRing
	require.Panics(t, func() { r.push(1) })
	r.reserve(8)
	for i := range 8 {
		r.push(i)
	}
	require.Panics(t, func() { r.push(8) })
}
