package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKeptSegmentsAreForThoseWhoHaveLittle(t *testing.T) {
	p := newNetwork(t, 16)
	p.SetKept(4)
	greedy, err := p.CreateGrant(GrantSpec{Required: 2, Max: Unlimited}, &recorder{})
	require.NoError(t, err)
	require.Equal(t, 12, greedy.Size())
	require.Equal(t, 12, greedy.Request(16))

	_, err = p.CreateGrant(GrantSpec{Required: 2, Max: 2}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)
	require.ErrorContains(t, err, "required 2, but only 0 available")
	require.ErrorContains(t, err, "the last 4 are kept for users that have little")
	modest, err := p.CreateGrant(GrantSpec{Required: 3, Max: 3, MayUseKept: true}, &recorder{})
	require.NoError(t, err)
	require.Equal(t, 3, modest.Request(8), "what it requires")
	_, err = p.CreateGrant(GrantSpec{Required: 2, Max: 2, MayUseKept: true}, &recorder{})
	require.ErrorIs(t, err, ErrInsufficientBuffers)

	require.Equal(t, 9, greedy.Size(), "what the other requires is no surplus")
	require.NoError(t, greedy.Recycle(12))
	greedy.Request(16)
	require.Equal(t, 9, greedy.Held())
	require.Equal(t, 4, p.Stats().Available)
	modest.Reclaim()
	greedy.Reclaim()
}

func TestGrantThatWaitsDoesNotGetWhatIsKept(t *testing.T) {
	p := newNetwork(t, 8)
	p.SetKept(2)
	first, err := p.CreateGrant(GrantSpec{Required: 1, Max: Unlimited}, &recorder{})
	require.NoError(t, err)
	require.Equal(t, 6, first.Request(8))
	isIn := false
	second, waits, err := p.QueueGrant(GrantSpec{Required: 2, Max: 2}, &recorder{}, func(*Grant) { isIn = true })
	require.NoError(t, err)
	require.True(t, waits)
	require.Equal(t, 4, first.Size(), "the rest is the other's")
	require.NoError(t, first.Recycle(1))
	require.False(t, isIn)
	require.NoError(t, first.Recycle(1))
	require.True(t, isIn)
	require.Equal(t, 2, second.Request(2))
	require.Equal(t, 2, p.Stats().Available)
	second.Reclaim()
	first.Reclaim()
}
