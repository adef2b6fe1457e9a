package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSegmentSetTakesTheLowestNumbers(t *testing.T) {
	s := NewSegmentSet(130)
	require.Equal(t, []int{0, 1, 2}, s.Take(3))
	all := s.Take(1000)
	require.Len(t, all, 127)
	require.Equal(t, 3, all[0])
	require.Equal(t, 129, all[126])
	require.Empty(t, s.Take(1))
	require.NoError(t, s.Return([]int{129, 70, 5}))
	require.Equal(t, []int{5, 70}, s.Take(2))
	require.NoError(t, s.Return([]int{0}))
	require.Equal(t, []int{0, 129}, s.Take(9))
	require.Empty(t, s.Take(0))
	require.Empty(t, s.Take(-1))
}

func TestSegmentSetOfWholeWordsAndOfNone(t *testing.T) {
	require.Len(t, NewSegmentSet(128).Take(1000), 128)
	require.Empty(t, NewSegmentSet(0).Take(1))
	require.Empty(t, NewSegmentSet(-1).Take(1))
}

func TestSegmentSetRefusesWhatIsNotHandedOut(t *testing.T) {
	for _, row := range []struct {
		name     string
		segments []int
	}{
		{"free", []int{1, 3}},
		{"negative", []int{1, -1}},
		{"past the end", []int{1, 70}},
		{"past the end in the last word", []int{1, 127}},
		{"twice", []int{1, 2, 1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := NewSegmentSet(70)
			s.Take(3)
			require.ErrorIs(t, s.Return(row.segments), ErrUnknownSegment)
			require.Equal(t, []int{3}, s.Take(1), "none was returned")
			require.NoError(t, s.Return([]int{2, 1, 0, 3}))
		})
	}
}
