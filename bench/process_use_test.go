package bench

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Tests wait for patience at most, and look at this interval.
const (
	patience     = 20 * time.Second
	pollInterval = time.Millisecond
)

func TestStatusOfAProcess(t *testing.T) {
	u, err := parseStatus("Name:\tx\nVmRSS:\t   7000 kB\nRssAnon:\t   1000 kB\nRssFile:\t   500 kB\nRssShmem:\t   5500 kB\nThreads:\t12\n")
	require.NoError(t, err)
	require.Equal(t, processUse{memory: 1500 << 10, threads: 12}, u)
	_, err = parseStatus("RssAnon:\t1 kB\nRssFile:\t1 kB\n")
	require.ErrorContains(t, err, "has no Threads")
}

func TestUseOfThisProcess(t *testing.T) {
	u, err := useOf(os.Getpid())
	require.NoError(t, err)
	require.Positive(t, u.memory)
	require.Positive(t, u.threads)
	file, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer file.Close()
	more, err := useOf(os.Getpid())
	require.NoError(t, err)
	require.Equal(t, u.files+1, more.files)
	_, err = useOf(-1)
	require.Error(t, err)
}

func TestProcessorTimeOfAProcessIsThatOfItsLife(t *testing.T) {
	before := processorTime()
	got, err := processorTimeOf(os.Getpid())
	require.NoError(t, err)
	after := processorTime()
	// The two clocks of the kernel are not read in the same way.
	require.InDelta(t, float64(before+after)/2, float64(got), float64(time.Second+after-before))
	_, err = processorTimeOf(1 << 22)
	require.ErrorContains(t, err, "read the processor time of process")
}

func TestDescriptorLimitThatIsHighEnoughStays(t *testing.T) {
	limit := raiseDescriptorLimit(1)
	require.Positive(t, limit)
	require.Equal(t, limit, raiseDescriptorLimit(limit))
}
