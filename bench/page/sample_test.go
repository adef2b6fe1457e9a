package page

import (
	"math"
	"strings"
	"time"

	"shuffled/bench/results"
)

// hostile is text that would end whatever it is in, if it were not escaped.
const hostile = `"'></title></desc></svg></style><script>alert(1)</script>&amp;`

func sampleMachine() results.Machine {
	return results.Machine{
		CPU: "Some CPU", Cores: 2, GoMaxProcs: 2, Caches: []results.Cache{{Level: 1, Type: "data", Bytes: 32 << 10},
			{Level: 2, Type: "unified", Bytes: 1 << 20}},
		Kernel: "6.1.0", Go: "go1.26.0 linux/amd64", THP: "madvise", Memory: 8 << 30, NoFile: 1024, Load: 0.25,
	}
}

// sample returns a file to which build adds rounds.
func sample(workload string, build func(f *results.File)) *results.File {
	f := &results.File{
		Format: results.FormatVersion, Workload: workload, Started: time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC),
		Machine: sampleMachine(),
	}
	build(f)
	f.Summarise()
	return f
}

// rounds adds three rounds that vary by a tenth.
func rounds(f *results.File, s results.Settings, r results.Round) {
	for _, factor := range []float64{1, 0.9, 1.1} {
		round := results.Round{}
		for metric, v := range r {
			round[metric] = v * factor
		}
		f.Add(s, round)
	}
}

func sampleThroughput() *results.File {
	return sample("throughput", func(f *results.File) {
		for _, of := range []struct {
			size int
			perS [3]float64
		}{{16, [3]float64{75e6, 130e6, 86e6}}, {100, [3]float64{59e6, 51e6, 29e6}},
			{8000, [3]float64{2.6e6, 2.9e6, 0.5e6}}} {
			for i, transport := range []string{"shm", "ceiling", "unix"} {
				size, perS := of.size, of.perS[i]
				s := results.Settings{Transport: transport, RecordSize: size, Producers: 1, Consumers: 1}
				if transport == "shm" {
					s.FlushTimeout, s.Via = "100ms", "emit"
				}
				rounds(f, s, results.Round{results.RecordsPerS: perS, results.BytesPerS: perS * float64(size)})
			}
		}
		f.Results[0].Rounds[0][results.OtherCores] = 0.5
	})
}

func sampleLatency() *results.File {
	return sample("latency", func(f *results.File) {
		for _, of := range []struct {
			settings results.Settings
			p50      float64
		}{
			{results.Settings{Transport: "shm", Path: "round-trip", Waiting: "parked", RecordSize: 100,
				FlushTimeout: "0"}, 6000},
			{results.Settings{Transport: "futex", Path: "round-trip", Waiting: "parked"}, 4000},
			{results.Settings{Transport: "shm", Path: "round-trip", Waiting: "spinning", RecordSize: 100,
				FlushTimeout: "0"}, 300},
			{results.Settings{Transport: "shm", Path: "one-way", Waiting: "spinning", RatePerS: 1000, RecordSize: 100,
				FlushTimeout: "0"}, 9000},
			{results.Settings{Transport: "unix", Path: "one-way", Waiting: "spinning", RatePerS: 1000, RecordSize: 100},
				12000},
		} {
			rounds(f, of.settings, results.Round{results.P50: of.p50, results.P99: of.p50 * 9,
				results.Highest: of.p50 * 99})
			m := f.Results[len(f.Results)-1]
			for i, percent := range []float64{50, 75, 90, 99, 99.9, 99.99, 99.999, 100} {
				m.Percentiles = append(m.Percentiles,
					results.Percentile{Percent: percent, Ns: int64(of.p50 * math.Exp2(float64(i)))})
			}
		}
	})
}

func sampleFanout() *results.File {
	return sample("fanout", func(f *results.File) {
		for _, n := range []int{1, 8, 1000} {
			for _, transport := range []string{"shm", "unix"} {
				s := results.Settings{Transport: transport, RecordSize: 100, Producers: 1, Consumers: min(n, 2),
					Subpartitions: n}
				r := results.Round{results.CostPerRecord: 20 + float64(n)/50,
					results.RecordsPerS: 40e6 / math.Sqrt(float64(n))}
				if transport == "shm" {
					r[results.MemoryPerSubpartition] = 4 << 20 / float64(n)
					r[results.UnusedPerSubpartition] = 1 << 20 / float64(n)
				}
				rounds(f, s, r)
			}
		}
		f.Partial = "1,000 subpartitions do not fit: " + hostile
	})
}

func sampleScale() *results.File {
	return sample("scale", func(f *results.File) {
		for _, n := range []int{10, 100, 1000} {
			f.Add(results.Settings{Transport: "shm", Partitions: n}, results.Round{
				results.AttachP50: 80e3, results.AttachP99: 4e5 + float64(n)*100,
				results.DaemonMemory:  float64(20<<20 + n*4000),
				results.DaemonThreads: 12, results.DaemonIdleCores: float64(n) * 1e-6,
				results.DaemonFiles: float64(2 * n),
			})
		}
	})
}

func sampleAudit() *results.File {
	return sample("audit", func(f *results.File) {
		for i, calls := range []float64{0.4, 48} {
			rounds(f, results.Settings{Transport: []string{"shm", "unix"}[i], RecordSize: 100, Producers: 1,
				Consumers: 1},
				results.Round{results.SystemCallsPerMiB: calls, results.CopiedPerByte: calls / 24,
					results.RecordsPerS: 3e7})
		}
	})
}

// sampleOfLongNames is of another machine, with bars.
func sampleOfLongNames() *results.File {
	long := strings.Repeat("long name ", 12) + strings.Repeat("x", 120)
	return sample("throughput", func(f *results.File) {
		for _, transport := range []string{"shm", "unix", long} {
			rounds(f, results.Settings{Transport: transport, RecordSize: 100, Via: "emit"},
				results.Round{results.RecordsPerS: 5e7, results.CPUSPerGiB: 0.3})
		}
		rounds(f, results.Settings{Transport: "shm", RecordSize: 100, Via: long},
			results.Round{results.RecordsPerS: 7e7})
		f.Machine.CPU, f.Partial = long, long
	})
}

func samples() []Source {
	return []Source{
		{"throughput.json", sampleThroughput()}, {"latency.json", sampleLatency()}, {"fanout.json", sampleFanout()},
		{"scale.json", sampleScale()}, {"audit.json", sampleAudit()},
	}
}
