package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQuotaMakesThePoolUnavailableButRefusesNothing(t *testing.T) {
	p := createLocal(t, newNetwork(t, 1024), LocalConfig{Required: 1, Max: 10, Subpartitions: 3,
		MaxBuffersPerChannel: 2})
	held := map[int][]int{}
	take := func(channel int) { held[channel] = append(held[channel], request(t, p, channel)) }
	put := func(channel int) {
		segment := held[channel][0]
		held[channel] = held[channel][1:]
		p.Recycle(segment, channel)
		requireLocalInvariants(t, p)
	}
	take(0)
	require.True(t, p.Available())
	take(1)
	require.True(t, p.Available())
	take(0)
	require.False(t, p.Available())
	waiting := p.Availability()
	take(0)
	require.False(t, p.Available())
	take(2)
	take(2)
	put(1)
	put(2)
	require.False(t, p.Available(), "channel 0 is over its quota")
	put(0)
	require.False(t, p.Available(), "channel 0 is at its quota")
	require.False(t, isClosed(waiting))
	put(0)
	require.True(t, p.Available())
	require.True(t, isClosed(waiting))
}

func TestRequestsGoOnBeyondTheQuotaUntilThePoolIsEmpty(t *testing.T) {
	for _, row := range []struct{ size, quota, channels, used int }{
		{4, 3, 2, 1}, {4, 3, 2, 2}, {4, 3, 3, 2}, {8, 5, 3, 2}, {12, 10, 4, 3},
	} {
		p := createLocal(t, newNetwork(t, 1024), LocalConfig{
			Required: 1, Max: row.size, Subpartitions: row.channels, MaxBuffersPerChannel: row.quota,
		})
		for i := range row.size {
			require.Equal(t, i/row.used < row.quota, p.Available(), "%+v after %d requests", row, i)
			request(t, p, i%row.used)
		}
		require.False(t, p.Available())
		requireNone(t, p)
	}
}

func TestSegmentsForNoChannelLeaveTheQuotasAlone(t *testing.T) {
	p := createLocal(t, newNetwork(t, 1024), LocalConfig{Required: 1, Max: 10, Subpartitions: 2,
		MaxBuffersPerChannel: 2})
	broadcast := requestAll(t, p, 5)
	require.True(t, p.Available())
	unicast := request(t, p, 0)
	require.True(t, p.Available())
	recycle(t, p, broadcast...)
	p.Recycle(unicast, 0)
	requireLocalInvariants(t, p)
}

// A record that has been begun needs a segment, not an available pool.
func TestFreeSegmentIsSignalledThoughAChannelIsAtItsQuota(t *testing.T) {
	p := createLocal(t, newNetwork(t, 2), LocalConfig{Required: 2, Max: 2, Subpartitions: 2, MaxBuffersPerChannel: 1})
	request(t, p, 0)
	other := request(t, p, 1)
	free, available := p.FreeSegment(), p.Availability()
	require.False(t, isClosed(free))
	p.Recycle(other, 1)
	require.True(t, isClosed(free))
	require.False(t, isClosed(available))
	request(t, p, 1)
}

func TestRequestForAnUnknownChannelIsRefused(t *testing.T) {
	p := createLocal(t, newNetwork(t, 2), LocalConfig{Required: 2, Max: 2, Subpartitions: 2})
	for _, channel := range []int{-2, 2} {
		_, ok, err := p.TryRequest(channel)
		require.ErrorIs(t, err, ErrInvalidArgument)
		require.False(t, ok)
	}
	require.Zero(t, p.Used())
}
