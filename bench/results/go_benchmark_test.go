package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/perf/benchfmt"
)

func TestGoBenchmarkFormatIsReadByItsOwnReader(t *testing.T) {
	f := sampleFile()
	f.Add(Settings{Transport: "odd name/with slash", RatePerS: 1e6}, Round{P99: 4060})
	f.Add(Settings{Transport: "empty"}, Round{})
	f.Summarise()
	var out bytes.Buffer
	require.NoError(t, f.WriteGoBenchmark(&out))

	reader := benchfmt.NewReader(&out, "file")
	var names []string
	rates := map[string][]float64{}
	for reader.Scan() {
		switch record := reader.Result().(type) {
		case *benchfmt.Result:
			name := string(record.Name)
			names = append(names, name)
			require.Equal(t, 1, record.Iters)
			for key, want := range map[string]string{"goos": "linux", "goarch": "amd64", "cpu": "Some CPU",
				"pkg": "shuffled/bench"} {
				require.Equal(t, want, record.GetConfig(key))
			}
			if rate, ok := record.Value("records/s"); ok {
				rates[name] = append(rates[name], rate)
				perRecord, ok := record.Value("sec/record")
				require.True(t, ok)
				require.InEpsilon(t, 1/rate, perRecord, 1e-9)
			}
			if p99, ok := record.Value("p99-sec"); ok {
				require.InDelta(t, 4060e-9, p99, 1e-15)
			}
		case *benchfmt.UnitMetadata:
		default:
			require.Fail(t, "syntax error", "%v", record)
		}
	}
	require.NoError(t, reader.Err())
	const shm = "Throughput/transport=shm/record_size=100/producers=1/consumers=1"
	require.Equal(t, []float64{60e6, 20e6, 80e6}, rates[shm])
	require.Len(t, names, 3+3+3+1+1, "a line for each round with figures")
	require.Equal(t, "Throughput/transport=odd_name_with_slash/rate_per_s=1000000", names[10])

	units := reader.Units()
	for unit, better := range map[string]int{"records/s": 1, "B/s": 1, "cpu-s/GiB": -1, "ns/record": -1, "p99-ns": -1,
		"other-cores": 0} {
		require.Equal(t, better, units.GetBetter(unit), unit)
	}
}

func TestGoBenchmarkFormatOfAnUnknownMachineHasNoEmptyLines(t *testing.T) {
	f := &File{Workload: "throughput"}
	f.Add(Settings{Transport: "shm"}, Round{RecordsPerS: 2})
	f.Summarise()
	var out strings.Builder
	require.NoError(t, f.WriteGoBenchmark(&out))
	require.Equal(t, "pkg: shuffled/bench\nUnit ns/record better=lower\nUnit records/s better=higher\n"+
		"BenchmarkThroughput/transport=shm 1 5e+08 ns/record 2 records/s\n", out.String())
}
