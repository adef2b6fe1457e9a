package bench

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpansReachFromTheFirstStartToTheLastEnd(t *testing.T) {
	for _, row := range []struct {
		name      string
		spans     []Span
		wall, cpu time.Duration
	}{
		{"none", nil, 0, 0},
		{"one", []Span{{Start: 5, End: 9, CPU: 3}}, 4, 3},
		{"overlapping", []Span{{Start: 5, End: 9, CPU: 3}, {Start: 3, End: 7, CPU: 4}}, 6, 7},
		{"one within the other", []Span{{Start: 1, End: 9, CPU: 1}, {Start: 3, End: 7, CPU: 1}}, 8, 2},
	} {
		wall, cpu := spans(row.spans)
		require.Equal(t, row.wall, wall, row.name)
		require.Equal(t, row.cpu, cpu, row.name)
	}
}

var kept [][]byte

func TestSpanCountsAllocations(t *testing.T) {
	var timer spanTimer
	timer.begin()
	const n = 1000
	for range n {
		kept = append(kept, make([]byte, 1024))
	}
	require.GreaterOrEqual(t, timer.end().Mallocs, uint64(n))
	kept = nil
}
