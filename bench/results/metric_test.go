package results

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/require"
)

// constantsIn returns the names of the Metric constants in a file.
func constantsIn(t *testing.T, path string) (metrics []Metric) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		kind, ok := spec.Type.(*ast.Ident)
		if literal, isText := spec.Values[0].(*ast.BasicLit); ok && isText && kind.Name == "Metric" {
			metrics = append(metrics, Metric(literal.Value[1:len(literal.Value)-1]))
		}
		return true
	})
	return metrics
}

func TestMetricsListsEveryConstant(t *testing.T) {
	require.ElementsMatch(t, constantsIn(t, "metric.go"), Metrics, "each constant of metric.go must be in Metrics once")
}

func TestUnitsAndFigures(t *testing.T) {
	for _, row := range []struct {
		metric Metric
		v      float64
		unit   string
		want   string
	}{
		{RecordsPerS, 60e6, "records/s", "60.00M"},
		{BytesPerS, 0, "B/s", "0"},
		{CPUSPerGiB, 0.5, "cpu-s/GiB", "0.5"},
		{CostPerRecord, 8.25, "cpu-ns/record", "8.250ns"},
		{P999, 4060, "p99.9-ns", "4.060µs"},
		{P50, 0, "p50-ns", "0"},
		{CopiedPerByte, 0.001234, "copied-B/B", "0.00123"},
		{SystemCallsPerMiB, 999, "syscalls/MiB", "999"},
		{DaemonMemory, 12_345_678, "daemon-memory-B", "12.35M"},
		{RatioToUnix, 2.5, "ratio-to-unix", "2.5"},
	} {
		require.Equal(t, row.unit, row.metric.Unit())
		require.Equal(t, row.want, row.metric.Format(row.v), row.metric)
	}
}
