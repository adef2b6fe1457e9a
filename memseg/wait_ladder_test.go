package memseg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWaitAwakeSeesARingAndSpinsOnlyAsLongAsItIsOfUse(t *testing.T) {
	before := maySpin
	maySpin = true
	t.Cleanup(func() { maySpin = before })
	d, err := NewDoorbell(NewHeapRegion("doorbell", int(DoorbellSize(1))), 1)
	require.NoError(t, err)

	require.True(t, d.waitAwake(d.Rings()-1), "was rung before the wait")
	require.Equal(t, 2*leastSpins, d.spins)
	for range 20 {
		require.True(t, d.waitAwake(d.Rings()-1))
	}
	require.Equal(t, mostSpins, d.spins)
	require.False(t, d.waitAwake(d.Rings()))
	require.Equal(t, mostSpins/2, d.spins)
	for range 20 {
		require.False(t, d.waitAwake(d.Rings()))
	}
	require.Equal(t, leastSpins/2, d.spins)
}
