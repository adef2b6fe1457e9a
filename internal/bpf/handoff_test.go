package bpf

import (
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/probe"
)

const (
	handedOff   = 1000
	firstHanded = 3
	testRegion  = 1 << 40
)

func init() {
	parts["publisher"] = func(s *stage) error {
		s.begin()
		for i := range uint64(handedOff) {
			probe.Publish(testRegion, firstHanded+i, i)
		}
		return nil
	}
	parts["consumer"] = func(s *stage) error {
		s.begin()
		for publisher := s.shared.Word(wordReady); publisher.Load() < curtainDown; {
		}
		for i := range uint64(handedOff) {
			probe.Consume(testRegion, firstHanded+i, i)
		}
		// Nobody has published these, or not in that region.
		for i := range uint64(handedOff) {
			probe.Consume(testRegion, firstHanded+handedOff+i, 0)
			probe.Consume(testRegion+1, firstHanded+i, 0)
		}
		return nil
	}
}

// multiples returns how many of n numbers from first on are multiples of every.
func multiples(first, n, every uint64) (found uint64) {
	for i := first; i < first+n; i++ {
		if i%every == 0 {
			found++
		}
	}
	return found
}

func TestHandOffsAreSampledByOrdinal(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	for _, every := range []uint64{0, 1, 8, 7, handedOff * 10} {
		t.Run(fmt.Sprintf("every %d", every), func(t *testing.T) {
			tracer := openTracer(t, Options{Executable: executable, SampleEvery: every}, PartHandoff)
			play := rehearse(t, "publisher", "consumer")
			require.NoError(t, tracer.Watch(play.pid(0), Producer))
			require.NoError(t, tracer.Watch(play.pid(1), Consumer))
			got := countsOf(t, tracer, play.perform).Handoff

			const bytes = handedOff * (handedOff - 1) / 2
			require.EqualValues(t, handedOff, got.Published)
			require.EqualValues(t, bytes, got.PublishedBytes)
			require.EqualValues(t, 3*handedOff, got.Consumed)
			require.EqualValues(t, bytes, got.ConsumedBytes)
			every := max(every, 1)
			sampled := multiples(firstHanded, handedOff, every)
			require.Equal(t, sampled, got.Latency.Count())
			require.Equal(t, sampled+multiples(firstHanded+handedOff, handedOff, every), got.Missed)
			require.Zero(t, got.Latency.Buckets[0], "hand-offs that took no time")
		})
	}
}

func TestHandOffsOfUnwatchedProcessesAreNotCounted(t *testing.T) {
	executable, err := os.Executable()
	require.NoError(t, err)
	tracer := openTracer(t, Options{Executable: executable}, PartHandoff)
	play := rehearse(t, "publisher", "consumer")
	require.NoError(t, tracer.Watch(play.pid(1), Consumer))
	got := countsOf(t, tracer, play.perform).Handoff
	require.Equal(t, Handoff{Consumed: 3 * handedOff, ConsumedBytes: handedOff * (handedOff - 1) / 2,
		Missed: 3 * handedOff}, *got)
}

func TestExecutableWithoutProbesIsMissing(t *testing.T) {
	for name, executable := range map[string]string{
		"no Go program":   "/bin/true",
		"no such file":    "/no/such/file",
		"no executable":   "/proc/self/cmdline",
		"without a probe": goTool(t),
	} {
		tracer := openTracer(t, Options{Executable: executable})
		var part []Missing
		for _, missing := range tracer.Missing() {
			if missing.Part == PartHandoff {
				part = append(part, missing)
			}
		}
		require.Len(t, part, 1, name)
		require.Error(t, part[0].Err, name)
		counts, err := tracer.Counts()
		require.NoError(t, err)
		require.Nil(t, counts.Handoff, name)
	}
}
