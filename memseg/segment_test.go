package memseg

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSegmentSharesItsMemoryAndEndsWhereItEnds(t *testing.T) {
	mem := make([]byte, 16, 32)
	s := NewSegment(mem, 3)
	bytes, err := s.Bytes()
	require.NoError(t, err)
	require.Len(t, bytes, 16)
	require.Equal(t, 16, cap(bytes), "it does not grow into what lies behind it")
	bytes[7] = 42
	require.Equal(t, byte(42), mem[7])
}

func TestFreedSegmentIsRefusedAndFreedOnce(t *testing.T) {
	mem := []byte{1, 2, 3}
	s := NewSegment(mem, 3)
	before, err := s.Bytes()
	require.NoError(t, err)
	require.NoError(t, s.Free())
	_, err = s.Bytes()
	require.ErrorIs(t, err, ErrFreed)
	require.ErrorContains(t, err, "segment 3")
	require.ErrorIs(t, s.Free(), ErrFreed)
	require.Equal(t, []byte{1, 2, 3}, before, "what was given out lives as long as the memory")
}
