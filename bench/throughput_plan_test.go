package bench

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/bench/results"
	"shuffled/pool"
	"shuffled/shuffle"
	"shuffled/writer"
)

// namesOf returns the names of planned rounds.
func namesOf(plan []plannedRound) (names []string) {
	for _, p := range plan {
		names = append(names, p.name)
	}
	return names
}

func TestPlanCombinesTheSettingsThatATransportHas(t *testing.T) {
	var out bytes.Buffer
	job := Throughput{
		Sizes: []int{100}, Transports: []Transport{Shm, Ceiling, Unix}, Producers: 1, Consumers: 1,
		Environment:    Environment{Out: &out},
		PartitionTypes: []shuffle.ResultPartitionType{shuffle.PipelinedBounded},
		FlushTimeouts:  []time.Duration{writer.DefaultBufferTimeout, writer.FlushNever},
		Vias:           []Via{Emit, Reserve}, Distributions: []Distribution{Keyed, RoundRobin},
	}
	plan := job.plan(pool.DefaultSegmentSize)
	require.Equal(t, []string{
		"shm flush 100ms emit", "shm flush 100ms reserve", "shm flush -1 emit", "shm flush -1 reserve", "ceiling",
		"unix",
	}, namesOf(plan))
	require.Equal(t, results.Settings{
		Transport: "shm", RecordSize: 100, Producers: 1, Consumers: 1, PartitionType: "pipelined-bounded",
		FlushTimeout: "-1", Via: "reserve",
	}, job.settings(plan[3]))
	require.Equal(t, results.Settings{Transport: "unix", RecordSize: 100, Producers: 1, Consumers: 1},
		job.settings(plan[5]))
	require.Empty(t, out.String())

	job.Vias, job.FlushTimeouts, job.Producers, job.Consumers = nil, nil, 2, 2
	plan = job.plan(pool.DefaultSegmentSize)
	require.Equal(t, []string{"shm keyed", "shm round-robin", "unix keyed", "unix round-robin"}, namesOf(plan))
	require.Equal(t, results.Settings{Transport: "unix", RecordSize: 100, Producers: 2, Consumers: 2,
		Distribution: "round-robin"}, job.settings(plan[3]))
	require.Equal(t, "left out: ceiling with 100 bytes: it has one producer and one consumer\n", out.String())
}

func TestPlanLeavesOutRecordsThatCannotBeWrittenInPlace(t *testing.T) {
	var out bytes.Buffer
	job := Throughput{Sizes: []int{4092, 4093}, Transports: []Transport{Shm}, Vias: []Via{Emit, Reserve}, Producers: 1,
		Consumers: 1, Environment: Environment{Out: &out}}
	require.Equal(t, []string{"shm emit", "shm reserve", "shm emit"}, namesOf(job.plan(4096)))
	require.Equal(t,
		"left out: shm reserve with 4093 bytes: a record that is written in place must fit a segment, at most 4092 bytes\n", out.String())
}

func TestEveryVariantIsComparedWithTheBaselineOfItsDistribution(t *testing.T) {
	job := Throughput{
		Sizes: []int{100}, Transports: []Transport{Shm, Unix}, Producers: 2, Consumers: 2, Pin: true,
		Vias: []Via{Emit, Reserve}, Distributions: []Distribution{Keyed, RoundRobin},
	}
	file := &results.File{}
	rates := map[string]float64{
		"shm emit keyed": 8, "shm reserve keyed": 6, "shm emit round-robin": 9, "shm reserve round-robin": 3,
		"unix keyed": 2, "unix round-robin": 3,
	}
	want := map[string]float64{
		"shm emit keyed": 4, "shm reserve keyed": 3, "shm emit round-robin": 3, "shm reserve round-robin": 1,
		"unix keyed": 1, "unix round-robin": 1,
	}
	got := make(map[string]float64)
	plan := job.plan(pool.DefaultSegmentSize)
	for _, p := range plan {
		file.Add(job.settings(p), results.Round{results.RecordsPerS: rates[p.name]})
	}
	file.Summarise()
	for i, p := range plan {
		got[p.name] = file.Results[i].RatioToUnix
	}
	require.Equal(t, want, got)
}
