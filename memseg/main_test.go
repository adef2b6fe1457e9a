package memseg

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
)

// childVariable names the part that this test binary plays when a test has
// started it again as another process.
const childVariable = "SHUFFLED_MEMSEG_CHILD"

// children are the parts. Each returns why it failed.
var children = map[string]func() error{}

func TestMain(m *testing.M) {
	if part := os.Getenv(childVariable); part != "" {
		if err := children[part](); err != nil {
			fmt.Fprintf(os.Stderr, "child %s: %v\n", part, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	leaktest.Main(m)
}

// newRandom returns a source of random numbers whose seed is logged. The variable
// SHUFFLED_TEST_SEED repeats a run.
func newRandom(t testing.TB) *rand.Rand {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SHUFFLED_TEST_SEED"); s != "" {
		var err error
		seed, err = strconv.ParseUint(s, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("SHUFFLED_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// firstBeforeWrap lets all cursors pass 2^64 soon.
const firstBeforeWrap = math.MaxUint64 - 2

// childCommand returns a command that runs this test binary as a child. The path
// leads to the binary itself, so that a user who cannot search the directory it
// lies in can run it too.
func childCommand(t testing.TB, part string, env ...string) *exec.Cmd {
	t.Helper()
	require.Contains(t, children, part)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), childVariable+"="+part, "GORACE=atexit_sleep_ms=0")
	cmd.Env = append(cmd.Env, env...)
	cmd.Stderr = os.Stderr
	return cmd
}

// memories are the kinds of memory a region can be made of: the race detector
// sees the first, the kernel the second.
var memories = []struct {
	name string
	make func(t testing.TB, size int) *Region
}{
	{"heap", func(_ testing.TB, size int) *Region { return NewHeapRegion("test", size) }},
	{"mmap", mappedRegion},
}

func overEachMemory(t *testing.T, f func(t *testing.T, newRegion func(t testing.TB, size int) *Region)) {
	for _, memory := range memories {
		t.Run(memory.name, func(t *testing.T) { f(t, memory.make) })
	}
}

// mappedRegion returns a writable mapping of a new shared object, which the end
// of the test unmaps.
func mappedRegion(t testing.TB, size int) *Region {
	t.Helper()
	m := newMemfd(t, int64(size))
	region, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, region.Close()) })
	return region
}

// newMemfd returns a shared object that the end of the test closes.
func newMemfd(t testing.TB, size int64) *Memfd {
	t.Helper()
	m, err := CreateMemfd("memseg-test", size)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}
