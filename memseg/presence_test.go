package memseg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPresenceOfARegionIsThatOfItsHeader(t *testing.T) {
	require.True(t, Presence{}.Holds(), "nobody takes it away")
	l := testLayout(t, 2, 4, 4096)
	memfd, err := CreateMemfd("taken", l.RegionSize())
	require.NoError(t, err)
	defer memfd.Close()
	require.NoError(t, memfd.WriteAt(l.EncodeHeader(), 0))
	region, err := memfd.Map(ReadOnly, 0)
	require.NoError(t, err)
	defer region.Close()
	presence := NewPresence(region)
	require.True(t, presence.Holds())
	require.NoError(t, memfd.Punch(pageSize, l.RegionSize()-pageSize))
	require.True(t, presence.Holds(), "segments go back while others are read")
	require.NoError(t, memfd.Punch(0, pageSize))
	require.False(t, presence.Holds())
}
