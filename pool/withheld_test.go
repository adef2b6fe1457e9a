package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithheldSegmentsAreNeitherPromisedNorHandedOut(t *testing.T) {
	p, err := NewNetworkBufferPool(10, 4096)
	require.NoError(t, err)
	first := &recorder{}
	g, err := p.CreateGrant(GrantSpec{Required: 2, Max: Unlimited}, first)
	require.NoError(t, err)
	require.Equal(t, 3, g.Request(3))
	p.SetWithheld(5)
	require.Equal(t, 5, p.Stats().Withheld)
	require.Equal(t, 7, p.Stats().Available)

	_, err = p.CreateGrant(GrantSpec{Required: 4, Max: 4}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	require.ErrorContains(t, err, "required 4, but only 2 available")
	require.ErrorContains(t, err, "the memory of 5 is held without a grant")

	require.Equal(t, 2, g.Request(6), "7 are free, 5 of them are held by somebody")
	p.SetWithheld(4)
	require.Equal(t, []int{1}, first.granted)
	p.SetWithheld(-1)
	require.Equal(t, []int{1, 3}, first.granted, "the rest of the wish")
	p.SetWithheld(1 << 40)
	require.Equal(t, 10, p.Stats().Withheld)
	require.Zero(t, g.Request(1))
	require.NoError(t, g.Recycle(9), "what is held may come back")
	g.Reclaim()
}

func TestSegmentSetTellsItsRuns(t *testing.T) {
	s := NewSegmentSet(200)
	runs := func() (all [][2]int) {
		s.EachFree(func(first, last int) bool { all = append(all, [2]int{first, last}); return true })
		return all
	}
	taken := func() (all []int) {
		s.EachTaken(func(i int) { all = append(all, i) })
		return all
	}
	require.Equal(t, [][2]int{{0, 199}}, runs())
	require.Empty(t, taken())
	segments := s.Take(200)
	require.Empty(t, runs())
	require.Equal(t, segments, taken())
	require.NoError(t, s.Return([]int{0, 63, 64, 130, 199}))
	require.Equal(t, [][2]int{{0, 0}, {63, 64}, {130, 130}, {199, 199}}, runs())
	require.Len(t, taken(), 195)
	first := 0
	s.EachFree(func(_, last int) bool { first = last; return false })
	require.Zero(t, first, "told to stop after the first")
}
