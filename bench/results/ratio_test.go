package results

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCostIsComparedWithThatOfEightSubpartitions(t *testing.T) {
	f := &File{}
	for n, cost := range map[int]float64{0: 100, 1: 5, 8: 10, 1000: 15} {
		f.Add(Settings{Transport: "shm", Subpartitions: n, Consumers: min(n, 16)}, Round{CostPerRecord: cost})
	}
	f.Summarise()
	got := make(map[int]float64)
	for _, m := range f.Results {
		if v, ok := m.Value(RatioToEight); ok {
			got[m.Subpartitions] = v
		}
	}
	require.Equal(t, map[int]float64{8: 1, 1000: 1.5}, got, "nothing without subpartitions")
}

func TestBareRoundTripsAreComparedWithWhateverTheirSize(t *testing.T) {
	f := &File{}
	f.Add(Settings{Transport: "shm", RecordSize: 100, FlushTimeout: "0", Waiting: "parked"}, Round{P50: 30})
	f.Add(Settings{Transport: "shm", RecordSize: 100, FlushTimeout: "0", Waiting: "spinning"}, Round{P50: 40})
	f.Add(Settings{Transport: "futex", Waiting: "parked"}, Round{P50: 10})
	f.Summarise()
	require.InDelta(t, 3, f.Results[0].RatioToFutex, 0)
	require.Zero(t, f.Results[1].RatioToFutex, "it waits in another way")
}
