package page

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
)

func TestPageHasTheProfileOfEachMeasurementThatHasOne(t *testing.T) {
	f := sample("throughput", func(f *results.File) {
		for _, probes := range []string{"off", "on"} {
			rounds(f, results.Settings{Transport: "unix", RecordSize: 100, Probes: probes},
				results.Round{results.RecordsPerS: 1e6})
		}
		f.Results[1].Profile = &results.Profile{
			Source: results.FromBPF, Seconds: 3, PayloadBytes: 10 << 20, CopySource: hostile,
			Roles: []results.RoleProfile{{
				Role: "producer", Processes: 1, WakeLatency: results.Histogram{10: 30, 11: 10},
				Figures: results.Figures{results.SystemCalls: 340, results.SystemCalls.Part("write"): 320,
					results.Woken: 20},
			}},
			Handoff: &results.Handoff{Buffers: 3, Latency: results.Histogram{62: 1, 70: 1}},
		}
	})
	page := written(t, Source{"a.json", f})
	require.Equal(t, []string{"Throughput", "Profile"}, titles(page))
	require.Contains(t, page, "<h3>unix, 100 B: 3.0 s, 10.0 MiB of records, counted in the kernel by eBPF</h3>")
	require.Contains(t, page, `<th scope="row" class="word">system calls</th><td>34.0</td>`)
	require.Contains(t, page, "<th scope=\"row\" class=\"word\">\u00a0\u00a0\u00a0write</th><td>32.0</td>")
	require.Contains(t, page, `<th scope="row" class="word">page faults</th><td>not measured</td>`)
	require.Contains(t, page, "producer, from 1.02 µs: 75.0 %")
	require.Contains(t, page, "bytes copied are ")
	require.NotContains(t, page, "<script>alert")
}

func TestPageOfAnEmptyProfileIsMade(t *testing.T) {
	f := sample("profile", func(f *results.File) {
		f.Add(results.Settings{Transport: "processes"}, results.Round{}).Profile = &results.Profile{}
	})
	require.Equal(t, []string{"Profile"}, titles(written(t, Source{"a.json", f})))
}
