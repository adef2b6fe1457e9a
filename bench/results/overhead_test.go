package results

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOverheadIsKnownIfItIsNoChance(t *testing.T) {
	with := func(metric Metric, values ...float64) (rounds []Round) {
		for _, v := range values {
			rounds = append(rounds, Round{metric: v})
		}
		return rounds
	}
	for name, row := range map[string]struct {
		metric  Metric
		on, off []float64
		cost    float64
		known   bool
	}{
		"fewer records": {RecordsPerS, []float64{89, 90, 90, 91}, []float64{99, 100, 100, 101}, 10, true},
		"more records":  {RecordsPerS, []float64{109, 110, 110, 111}, []float64{99, 100, 100, 101}, -10, true},
		"more processor time": {CPUSPerGiB, []float64{3, 3, 3.1, 3.2}, []float64{2.9, 2.2, 2, 1}, 100 * (3.05/2.1 - 1),
			true},
		"as by chance":   {P50, []float64{1, 3, 2, 4}, []float64{2.5, 1.5, 2.9, 3.1}, 100 * (2.5/2.7 - 1), false},
		"too few rounds": {RecordsPerS, []float64{1, 1, 1}, []float64{2, 2, 2}, 50, false},
	} {
		all := NewOverheads(with(row.metric, row.on...), with(row.metric, row.off...))
		require.Len(t, all, 1, name)
		require.Equal(t, row.metric, all[0].Metric, name)
		require.InDelta(t, row.cost, all[0].CostPercent, 1e-9, name)
		require.Equal(t, row.known, all[0].IsKnown(), name)
	}
	require.Empty(t, NewOverheads(with(RecordsPerS, 1), with(P50, 1)), "nothing in common")
	require.Empty(t, NewOverheads(with(RecordsPerS, 1), with(RecordsPerS, 0)))
}
