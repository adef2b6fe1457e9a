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

func TestGateBounds(t *testing.T) {
	const e, f, blocking = DefaultBuffersPerChannel, DefaultFloatingBuffers, DefaultBlockingRequiredPerGate
	for _, row := range []struct {
		name                  string
		requiredMax, channels int
		perChannel            int
		want                  GateBuffers
		total                 int
	}{
		{"pipelined 499", Unlimited, 499, e, GateBuffers{2, 1, 8}, 1006},
		{"pipelined 500", Unlimited, 500, e, GateBuffers{2, 1, 8}, 1008},
		{"pipelined 999", Unlimited, 999, e, GateBuffers{2, 1, 8}, 2006},
		{"pipelined 1000", Unlimited, 1000, e, GateBuffers{2, 1, 8}, 2008},
		{"pipelined without exclusive", Unlimited, 1001, 0, GateBuffers{0, 1, 8}, 8},
		{"blocking 499", blocking, 499, e, GateBuffers{2, 1, 8}, 1006},
		{"blocking 500", blocking, 500, e, GateBuffers{1, 500, 508}, 1008},
		{"blocking 999", blocking, 999, e, GateBuffers{1, 1, 1007}, 2006},
		{"blocking 1000", blocking, 1000, e, GateBuffers{0, 1000, 2008}, 2008},
		{"blocking without exclusive", blocking, 1001, 0, GateBuffers{0, 1, 8}, 8},
		{"configured limit, above", 100, 49, e, GateBuffers{2, 1, 8}, 106},
		{"configured limit, at", 100, 50, e, GateBuffers{1, 50, 58}, 108},
		{"configured limit, far below", 100, 100, e, GateBuffers{0, 100, 208}, 208},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := GateBounds(row.requiredMax, row.channels, row.perChannel, f)
			require.Equal(t, row.want, got)
			require.Equal(t, row.total, got.ExclusivePerChannel*row.channels+got.MaxFloating)
		})
	}
	require.Equal(t, GateBuffers{2, 1, 1}, GateBounds(Unlimited, 4, 2, 0), "raised to what is required")
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
