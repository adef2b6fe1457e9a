package ipc

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestPartitionIDsOfMessagesAreChecked(t *testing.T) {
	id := shuffle.NewPartitionID()
	read, err := DecodePartitionID(id[:])
	require.NoError(t, err)
	require.Equal(t, id, read)
	for _, b := range [][]byte{nil, make([]byte, 15), make([]byte, 16), make([]byte, 17)} {
		_, err := DecodePartitionID(b)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, "%d bytes", len(b))
	}
}
