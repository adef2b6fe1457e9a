package memseg

import (
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
)

func TestRegionIsUnmappedWithItsLastReference(t *testing.T) {
	leaktest.Check(t)
	m, err := CreateMemfd("memseg-last-reference", pageSize)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	before := LiveMappings()
	isMapped := func() bool {
		maps, err := os.ReadFile("/proc/self/maps")
		require.NoError(t, err)
		return strings.Contains(string(maps), "memseg-last-reference")
	}
	region, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	require.NoError(t, region.Retain())
	require.NoError(t, region.Retain())
	mem := region.Bytes()

	require.NoError(t, region.Close())
	require.Equal(t, before+1, LiveMappings())
	mem[0] = 1
	require.NoError(t, region.Release())
	mem[0] = 2
	require.Equal(t, before+1, LiveMappings())
	require.True(t, isMapped())
	require.NoError(t, region.Release())
	require.Equal(t, before, LiveMappings())
	require.False(t, isMapped())
}

func TestClosedRegionIsHarmlessToWhoStillUsesItsMemory(t *testing.T) {
	m := newMemfd(t, 2*pageSize)
	write, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	read, err := m.Map(ReadOnly, 0)
	require.NoError(t, err)
	written, seen := write.Bytes(), read.Bytes()
	copy(written, "shared")
	before, covered := LiveMappings(), coveredMappings.Load()
	require.NoError(t, write.Close())
	require.Equal(t, before-1, LiveMappings())
	copy(written, "whose?")
	written[len(written)-1] = 1
	require.Equal(t, "shared", string(seen[:6]), "what is written is nobody else's")
	require.NoError(t, read.Close())
	require.Equal(t, make([]byte, 6), seen[:6])
	runtime.GC()
	require.Equal(t, "whose?", string(written[:6]), "for as long as the region can be reached")
	require.GreaterOrEqual(t, coveredMappings.Load(), int64(2))
	runtime.KeepAlive(write)
	runtime.KeepAlive(read)
	write, read = nil, nil
	require.Eventually(t, func() bool {
		runtime.GC()
		return coveredMappings.Load() <= covered
	}, time.Minute, time.Millisecond, "then its addresses are free")
}

// A process has a limited number of mappings, and closed ones are not in proportion
// to the garbage that makes the runtime look for them.
func TestClosedRegionsAreFewThoughNothingElseIsAllocated(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	m := newMemfd(t, pageSize)
	for range 5 * mostCovered {
		region, err := m.Map(ReadOnly, 0)
		require.NoError(t, err)
		require.NoError(t, region.Close())
	}
	require.Eventually(t, func() bool { return coveredMappings.Load() < 3*mostCovered }, time.Minute, time.Millisecond)
}

// RLIMIT_AS is a bound of what is closed too, until it is needed.
func TestAddressesOfClosedRegionsAreFoundWhenTheyRunOut(t *testing.T) {
	if os.Getenv("MEMSEG_FEW_ADDRESSES") == "" {
		child := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
		child.Env = append(os.Environ(), "MEMSEG_FEW_ADDRESSES=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		return
	}
	const size = 1 << 30
	m := newMemfd(t, size)
	limit := uint64(virtualKiB(t))<<10 + 4*size
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: limit, Max: limit}))
	for i := range 100 {
		region, err := m.Map(ReadWrite, 0)
		require.NoError(t, err, "%d", i)
		require.NoError(t, region.Close())
	}
}

func TestLateCallsOnARegionAreRefused(t *testing.T) {
	leaktest.Check(t)
	m := newMemfd(t, pageSize)
	mapped := func() *Region {
		region, err := m.Map(ReadWrite, 0)
		require.NoError(t, err)
		return region
	}
	heap := func() *Region { return NewHeapRegion("test", pageSize) }
	for _, region := range []*Region{mapped(), heap()} {
		require.NoError(t, region.Close())
		require.ErrorIs(t, region.Close(), ErrClosed)
		require.ErrorIs(t, region.Retain(), ErrClosed)
		require.ErrorIs(t, region.Release(), ErrClosed)
	}
	for _, region := range []*Region{mapped(), heap()} {
		require.NoError(t, region.Retain())
		require.NoError(t, region.Close())
		require.ErrorIs(t, region.Close(), ErrClosed)
		require.ErrorIs(t, region.Retain(), ErrClosed, "though the memory is still there")
		require.NoError(t, region.Release())
		require.ErrorIs(t, region.Release(), ErrClosed)
	}
}

func TestReleaseNeverTakesTheOwnersReference(t *testing.T) {
	region := mappedRegion(t, pageSize)
	require.ErrorIs(t, region.Release(), ErrClosed, "nothing was retained")
	region.Bytes()[0] = 1
	require.NoError(t, region.Retain())
	require.NoError(t, region.Release())
	require.ErrorIs(t, region.Release(), ErrClosed)
	region.Bytes()[0] = 2
}

func TestAccessesHaveNames(t *testing.T) {
	require.Equal(t, ReadWrite.String(), "read-write")
	require.Equal(t, ReadOnly.String(), "read-only")
}

func TestWordsOutsideARegionOrUnalignedAreOurFault(t *testing.T) {
	region := NewHeapRegion("test", 256)
	region.Word(248).Store(0x0102030405060708)
	require.Equal(t, []byte{8, 7, 6, 5, 4, 3, 2, 1}, region.Bytes()[248:])
	region.Word32(244).Store(0x01020304)
	require.Equal(t, []byte{4, 3, 2, 1}, region.Bytes()[244:248])
	for _, offset := range []int{-8, 256, 252, 4, 7} {
		require.Panics(t, func() { region.Word(offset) }, "%d", offset)
	}
	for _, offset := range []int{-4, 256, 254, 2} {
		require.Panics(t, func() { region.Word32(offset) }, "%d", offset)
	}
}
