package profile

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
	"shuffled/internal/bpf"
)

var unixSettings = results.Settings{Transport: "unix", RecordSize: 100}

func steady(int) float64 { return 1e6 }

func TestRoundsGetWhatProducersAndConsumersTookOfTheKernel(t *testing.T) {
	r := &recording{snapshots: []bpf.Counts{socketCounts(1), socketCounts(11), socketCounts(20), socketCounts(40)}}
	p, f := newProfiler(r.source(), false), results.New("throughput")
	defer p.Close()
	require.NoError(t, observe(p, unixSettings, f, 1, 10<<20, steady))
	require.NoError(t, observe(p, unixSettings, f, 1, 20<<20, steady))
	require.Equal(t, map[int]bpf.Role{producerPID: bpf.Producer, consumerPID: bpf.Consumer}, r.watched)
	require.False(t, r.open, "nothing is attached between rounds")
	p.Finish(f)

	require.Len(t, f.Results, 1)
	m := f.Results[0]
	require.Equal(t, "on", m.Probes)
	for _, round := range m.Rounds {
		require.Equal(t, results.Round{
			results.RecordsPerS: 1e6, results.CopiedPerByte: 2, results.SystemCallsPerMiB: 66, results.WakeupsPerMiB: 2,
		}, round)
	}
	require.Equal(t, results.FromBPF, m.Profile.Source)
	require.InDelta(t, 30, m.Profile.Seconds, 1e-9)
	require.EqualValues(t, 30<<20, m.Profile.PayloadBytes)
	producer := m.Profile.Role("producer")
	require.Equal(t, 1, producer.Processes)
	require.Equal(t, 34*30.0, producer.Figures[results.SystemCalls])
	require.Equal(t, []string{"write", "epoll_pwait"}, producer.Figures.Parts(results.SystemCalls))
	require.Equal(t, []string{"consumer", "other"}, producer.Figures.Parts(results.Woken))
	require.Equal(t, 90.0, producer.Figures[results.Woke.Part("other")])
	require.Equal(t, 120.0, producer.Figures[results.PageFaults])
	require.InDelta(t, 3e-3, producer.Figures[results.OffCPU.Part("epoll")], 1e-9)
	require.EqualValues(t, 60, producer.WakeLatency[12])
	require.Equal(t, 0.0, m.Profile.Role("consumer").Figures[results.CopiedFromUser])
	require.Contains(t, m.Profile.Role("consumer").Figures, results.CopiedFromUser)
}

func TestWhatWasNotMeasuredIsAbsent(t *testing.T) {
	with := func(n uint64) bpf.Counts {
		c := socketCounts(n)
		c.Wakes, c.CopySource = nil, bpf.CopyNotMeasured
		for i := range c.Roles {
			c.Roles[i].Copied, c.Roles[i].WakeLatency = nil, nil
		}
		return c
	}
	r := &recording{
		snapshots: []bpf.Counts{with(1), with(2)},
		missing:   []bpf.Missing{{Part: "wake-ups", Err: errors.New("too old a kernel")}},
	}
	p, f := newProfiler(r.source(), false), results.New("throughput")
	require.NoError(t, observe(p, unixSettings, f, 1, 1<<20, steady))
	p.Finish(f)
	m := f.Results[0]
	require.Equal(t, results.Round{results.RecordsPerS: 1e6, results.SystemCallsPerMiB: 66}, m.Rounds[0])
	for _, role := range m.Profile.Roles {
		require.NotContains(t, role.Figures, results.Woken)
		require.NotContains(t, role.Figures, results.CopiedToUser)
		require.Nil(t, role.WakeLatency)
	}
	require.Equal(t, []results.Missing{{What: "wake-ups", Why: "too old a kernel"}}, m.Profile.Missing)
	require.Empty(t, m.Profile.CopySource)
}

func TestEverySecondRoundIsLeftAloneToFindTheOverhead(t *testing.T) {
	var snapshots []bpf.Counts
	for i := range uint64(16) {
		snapshots = append(snapshots, socketCounts(i))
	}
	r := &recording{snapshots: snapshots}
	p, f := newProfiler(r.source(), true), results.New("throughput")
	require.True(t, p.Compares())
	// Two transports take turns, in rounds without, with, with and without probes.
	rates := []float64{100, 90, 94, 110}
	for i := range 4 {
		for _, s := range []results.Settings{unixSettings, {Transport: "shm", RecordSize: 100}} {
			require.NoError(t, observe(p, s, f, 1, 1<<20, func(int) float64 { return rates[i] }))
		}
	}
	p.Finish(f)
	require.Len(t, f.Results, 4)
	for i, m := range f.Results {
		require.Equal(t, []string{"off", "on"}[i%2], m.Probes)
		require.Equal(t, [][]float64{{100, 110}, {90, 94}}[i%2], m.Values(results.RecordsPerS))
		require.Equal(t, i%2 == 1, m.Profile != nil)
		require.Len(t, m.Values(results.CopiedPerByte), 2*(i%2))
	}
	require.Equal(t, []results.Overhead{{
		Metric: results.RecordsPerS, With: 92, Without: 105, CostPercent: 100 * (1 - 92.0/105), P: 1,
	}}, f.Results[1].Profile.Overheads)
}

func TestARoundThatFailedLeavesNothingBehind(t *testing.T) {
	r := &recording{snapshots: []bpf.Counts{socketCounts(1), socketCounts(5), socketCounts(6)}}
	p, f := newProfiler(r.source(), false), results.New("throughput")
	require.NoError(t, p.Begin(unixSettings, pair)) // and neither Stop nor End
	require.True(t, r.open)
	require.NoError(t, observe(p, unixSettings, f, 1, 1<<20, steady))
	p.Finish(f)
	require.InDelta(t, 2, f.Results[0].Rounds[0][results.CopiedPerByte], 1e-9, "that of the round alone")
	require.Equal(t, 34.0, f.Results[0].Profile.Role("producer").Figures[results.SystemCalls])

	require.NoError(t, func() error {
		r.snapshots = []bpf.Counts{socketCounts(1)}
		return p.Begin(unixSettings, pair)
	}())
	p.Close()
	require.False(t, r.open)
}

func TestErrorsOfTheCounterEndTheRound(t *testing.T) {
	r := &recording{}
	p := newProfiler(r.source(), false)
	require.ErrorContains(t, p.Begin(unixSettings, pair), "read counts: the recording is over")
	require.False(t, r.open)
	r.snapshots = []bpf.Counts{socketCounts(1)}
	require.NoError(t, p.Begin(unixSettings, pair))
	require.ErrorContains(t, p.Stop(), "read counts")
	require.False(t, r.open)

	broken := newProfiler(&kernelSource{open: func() (counter, error) { return nil, bpf.ErrUnsupported }}, false)
	require.ErrorIs(t, broken.Begin(unixSettings, pair), bpf.ErrUnsupported)
	_, err := newProfiler(r.source(), false).End(1)
	require.Error(t, err)
}

func TestDurationsOfAWatchAreThoseOfTheKernelsClock(t *testing.T) {
	r := &recording{snapshots: []bpf.Counts{{Taken: time.Unix(5, 0)}, {Taken: time.Unix(7, 0)}}}
	s := r.source()
	require.NoError(t, s.begin(pair))
	p, err := s.end()
	require.NoError(t, err)
	require.InDelta(t, 2, p.Seconds, 1e-9)
	require.Empty(t, p.Role("producer").Figures)
}
