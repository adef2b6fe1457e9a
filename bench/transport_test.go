package bench

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTransportLists(t *testing.T) {
	got, err := ParseTransports("tcp, shm")
	require.NoError(t, err)
	require.Equal(t, []Transport{TCP, Shm}, got)
	for list, want := range map[string]string{
		"":         `transport "": want some of shm,ceiling,unix,tcp,pipe`,
		"shm,udp":  `transport "udp": want some of`,
		"shm,shm":  `transport "shm" is given twice`,
		"Shm":      `transport "Shm": want some of`,
		"shm,,tcp": `transport "": want some of`,
	} {
		_, err := ParseTransports(list)
		require.ErrorContains(t, err, want, "%q", list)
	}
}

func TestCeilingCarriesOnlyWhatItsRingCan(t *testing.T) {
	require.NoError(t, Ceiling.check(ringMaxRecord, 1, 1))
	require.ErrorContains(t, Ceiling.check(ringMaxRecord+1, 1, 1), "at most 32764 bytes")
	require.ErrorContains(t, Ceiling.check(100, 2, 1), "one producer")
	require.ErrorContains(t, Ceiling.check(100, 1, 2), "one consumer")
	for _, transport := range []Transport{Shm, Unix, TCP, Pipe} {
		require.NoError(t, transport.check(MaxRecordSize, 4, 4))
	}
}
