package bench

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

func TestConsumerProcessesShareAllSubpartitions(t *testing.T) {
	for _, row := range []struct {
		processes, subpartitions int
		want                     [][2]int
	}{
		{1, 3, [][2]int{{0, 3}}},
		{3, 3, [][2]int{{0, 1}, {1, 2}, {2, 3}}},
		{3, 10, [][2]int{{0, 3}, {3, 6}, {6, 10}}},
		{4, 2, [][2]int{{0, 1}, {1, 2}}},
	} {
		f := Fanout{Processes: row.processes}
		require.Equal(t, row.want, f.groups(row.subpartitions))
	}
}

func TestFanoutIsMeasuredFromTheProducersStart(t *testing.T) {
	f := Fanout{Producers: 2, Size: 100}
	ms := time.Millisecond
	r, payload, err := f.evaluate([]result{
		{Records: 600, Before: 100, Span: Span{Start: 1000 * ms, End: 2000 * ms, CPU: 300 * ms, Mallocs: 7}},
		{Records: 600, Before: 100, Span: Span{Start: 1100 * ms, End: 2000 * ms, CPU: 300 * ms}},
		{Records: 1200, Span: Span{Start: 500 * ms, End: 3000 * ms, CPU: 400 * ms, Mallocs: 3}},
	})
	require.NoError(t, err)
	require.EqualValues(t, 120_000, payload)
	require.InDelta(t, 500, r[results.RecordsPerS], 1e-9)
	require.InDelta(t, 50_000, r[results.BytesPerS], 1e-9)
	require.InDelta(t, 1e6, r[results.CostPerRecord], 1e-6)
	require.InDelta(t, 0.01, r[results.AllocsPerRecord], 1e-9)
}

func TestFanoutNoticesMissingRecords(t *testing.T) {
	f := Fanout{Producers: 1, Size: 100}
	_, _, err := f.evaluate([]result{{Records: 10, Span: Span{End: 1}}, {Records: 9}})
	require.ErrorIs(t, err, ErrContent)
	require.ErrorContains(t, err, "producers sent 10 records, consumers got 9")
	_, _, err = f.evaluate([]result{{Records: 10, Before: 10, Span: Span{End: 1}}, {Records: 10}})
	require.ErrorContains(t, err, "choose more --seconds")
}

func TestFanoutLeavesOutStreamsThatNoProcessCanHold(t *testing.T) {
	var out bytes.Buffer
	f := Fanout{Subpartitions: []int{1, MaxFanout}, Transports: []Transport{Shm, Unix}, Producers: 1 << 20,
		Environment: Environment{Out: &out}}
	require.Equal(t, []fanoutRound{{1, Shm}, {MaxFanout, Shm}}, f.plan())
	require.Contains(t, out.String(),
		"left out: unix with 4,096 subpartitions: it takes 8589934720 descriptors, RLIMIT_NOFILE is ")
}

func TestMemoryIsIdleLateInTheRestOnly(t *testing.T) {
	phases := newFanoutPhases(time.Second)
	from, to := phases.settled()
	require.Equal(t, longestWarmUp+fanoutRest, to)
	require.Greater(t, from, phases.WarmUp)
	require.Less(t, from, to)
	require.Equal(t, time.Millisecond, newFanoutPhases(time.Millisecond).WarmUp)
}
