package bpf

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
)

func TestMain(m *testing.M) {
	if part := os.Getenv(childVariable); part != "" {
		if err := playPart(part); err != nil {
			fmt.Fprintf(os.Stderr, "child %s: %v\n", part, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// openTracer returns a tracer that the end of the test closes. It skips the test
// where tracing, or a part that the test is about, is not to be had.
func openTracer(t *testing.T, o Options, parts ...string) *Tracer {
	t.Helper()
	tracer, err := Open(o)
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, tracer.Close()) })
	for _, missing := range tracer.Missing() {
		t.Logf("missing: %s", missing)
	}
	for _, part := range parts {
		requirePart(t, tracer, part)
	}
	return tracer
}

func requirePart(t *testing.T, tracer *Tracer, part string) {
	t.Helper()
	for _, missing := range tracer.Missing() {
		if missing.Part == part {
			t.Skip(missing)
		}
	}
}

// countsOf returns what was counted while f ran.
func countsOf(t *testing.T, tracer *Tracer, f func()) Counts {
	t.Helper()
	before, err := tracer.Counts()
	require.NoError(t, err)
	f()
	after, err := tracer.Counts()
	require.NoError(t, err)
	counts := after.Sub(before)
	if counts.Skipped != 0 {
		t.Skipf("the kernel skipped %d events: %s", counts.Skipped, skippedBy(tracer))
	}
	return counts
}

// skippedBy names the programs that were not run for some events.
func skippedBy(tracer *Tracer) (names []string) {
	for _, a := range tracer.loader.attached {
		if stats, err := a.program.Stats(); err == nil && stats.RecursionMisses > 0 {
			names = append(names, fmt.Sprintf("%s %d", a.name, stats.RecursionMisses))
		}
	}
	return names
}
