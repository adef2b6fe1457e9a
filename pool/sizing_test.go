package pool

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartitionBounds(t *testing.T) {
	for _, row := range []struct {
		name                string
		bounded             bool
		n, perChannel, flow int
		required, most      int
	}{
		{"the familiar sixteen for four", true, 4, 2, 8, 5, 16},
		{"one subpartition", true, 1, 2, 8, 2, 10},
		{"unbounded", false, 4, 2, 8, 5, Unlimited},
		{"raised to what is required", true, 4, 1, 0, 5, 5},
		{"nothing to spare", true, 4, 0, 0, 5, 5},
		{"sized in bytes", true, 4, 2, FloatingBuffers(32<<10, 4<<20), 5, 136},
	} {
		t.Run(row.name, func(t *testing.T) {
			required, most := PartitionBounds(row.bounded, row.n, row.perChannel, row.flow)
			require.Equal(t, row.required, required)
			require.Equal(t, row.most, most)
		})
	}
}

func TestFloatingBuffersHoldTheTargetBytes(t *testing.T) {
	for _, row := range []struct{ segmentSize, target, want int }{
		{DefaultSegmentSize, 4 << 20, 128},
		{4 << 10, 4 << 20, 1024},
		{1 << 20, 4 << 20, 8},
		{512 << 10, 4 << 20, 8},
		{DefaultSegmentSize, 0, 8},
		{3000, 30001, 10},
	} {
		require.Equal(t, row.want, FloatingBuffers(row.segmentSize, row.target), "%+v", row)
	}
}

func TestDefaultFloatingBytes(t *testing.T) {
	one, more := DefaultFloatingBytes(1), DefaultFloatingBytes(2)
	require.GreaterOrEqual(t, one, 4<<20)
	require.LessOrEqual(t, one, 24<<20)
	require.GreaterOrEqual(t, more, 4<<20)
	require.LessOrEqual(t, more, 8<<20)
	require.GreaterOrEqual(t, one, more)
	require.Equal(t, more, DefaultFloatingBytes(1000))
}
