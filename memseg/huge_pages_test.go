package memseg

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// newCollapsed returns an object of two huge pages and a small one, all of it
// committed and filled, whose first huge page is one.
func newCollapsed(t *testing.T) *Memfd {
	size := HugePageSize()
	if size == 0 {
		t.Skip("this kernel has no transparent huge pages: /sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	}
	m, err := CreateMemfd("huge", 2*size+4096)
	require.NoError(t, err)
	t.Cleanup(func() { _ = m.Close() })
	require.NoError(t, m.Commit(0, m.Size()))
	for at := int64(0); at < m.Size(); at += 4096 {
		require.NoError(t, m.WriteAt([]byte{byte(at / 4096)}, at))
	}
	if err := m.Collapse(0); errors.Is(err, ErrNoHugePages) || errors.Is(err, ErrNoMemory) {
		t.Skipf("no huge page can be had here: %v", err)
	} else {
		require.NoError(t, err)
	}
	return m
}

func TestCollapseKeepsWhatIsThereForAllWhoMapIt(t *testing.T) {
	for _, access := range []Access{ReadOnly, ReadWrite} {
		m := newCollapsed(t)
		size := HugePageSize()
		region, err := m.Map(access, 0)
		require.NoError(t, err)
		requirePattern := func() {
			for at := 0; at < region.Size(); at += 4096 {
				require.Equal(t, byte(at/4096), region.Bytes()[at], "at %d", at)
			}
		}
		requirePattern()
		require.Equal(t, fmt.Sprintf("%d kB", size>>10), mappingsOf(t, "huge")[0].values["ShmemPmdMapped"],
			"%s mapping", access)
		require.NoError(t, m.Collapse(size), "beside a mapping")
		requirePattern()
		require.Equal(t, fmt.Sprintf("%d kB", 2*size>>10), mappingsOf(t, "huge")[0].values["ShmemPmdMapped"],
			"%s mapping", access)
		require.NoError(t, region.Close())
		backed, err := m.BackedBytes()
		require.NoError(t, err)
		require.Equal(t, m.Size(), backed)
	}
}

func TestPartsOfAHugePageCanBeGivenBack(t *testing.T) {
	m := newCollapsed(t)
	region, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, region.Close()) }()
	_ = region.Bytes()[0]
	require.NoError(t, m.Punch(32<<10, 64<<10))
	backed, err := m.BackedBytes()
	require.NoError(t, err)
	require.Equal(t, m.Size()-64<<10, backed)
	require.Equal(t, byte(7), region.Bytes()[7<<12])
	require.Zero(t, region.Bytes()[8<<12])
	require.Equal(t, byte(24), region.Bytes()[24<<12])

	require.NoError(t, m.Collapse(0), "what was given back is committed again")
	backed, err = m.BackedBytes()
	require.NoError(t, err)
	require.Equal(t, m.Size(), backed)
	require.Equal(t, byte(7), region.Bytes()[7<<12])
	require.Zero(t, region.Bytes()[8<<12])
}

func TestCollapseOfWhatCannotBe(t *testing.T) {
	m := newCollapsed(t)
	for _, offset := range []int64{4096, -HugePageSize(), 2 * HugePageSize()} {
		require.ErrorIs(t, m.Collapse(offset), ErrOutOfBounds, "offset %d", offset)
	}
	require.NoError(t, m.Close())
	require.ErrorIs(t, m.Collapse(0), ErrClosed)
}

// Small objects are mapped as they come, large ones at an address that suits.
func TestLargeObjectsAreMappedWhereHugePagesFit(t *testing.T) {
	size := HugePageSize()
	if size == 0 {
		t.Skip("this kernel has no transparent huge pages: /sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
	}
	for _, bytes := range []int64{4096, size - 4096, size, size + 4096, 3*size + 8192} {
		m, err := CreateMemfd("aligned", bytes)
		require.NoError(t, err)
		region, err := m.Map(ReadWrite, 0)
		require.NoError(t, err)
		region.Bytes()[bytes-1] = 1
		mapped := mappingsOf(t, "aligned")
		require.Len(t, mapped, 1)
		require.EqualValues(t, bytes, mapped[0].end-mapped[0].start)
		if bytes >= size {
			require.Zero(t, mapped[0].start%uint64(size))
		}
		require.NoError(t, region.Close())
		require.Empty(t, mappingsOf(t, "aligned"))
		require.NoError(t, m.Close())
	}
}

// What is reserved to find such an address is given back.
func TestMappingsLeaveNoAddressReserved(t *testing.T) {
	m, err := CreateMemfd("reserved", 3*HugePageSize()+8192)
	require.NoError(t, err)
	defer func() { require.NoError(t, m.Close()) }()
	const rounds, kib = 500, 1 << 10
	before := virtualKiB(t)
	for range rounds {
		region, err := m.Map(ReadOnly, 0)
		require.NoError(t, err)
		require.NoError(t, region.Close())
	}
	require.Eventually(t, func() bool {
		runtime.GC() // the addresses of the last ones wait for it
		return virtualKiB(t) < before+rounds*HugePageSize()/kib/2
	}, time.Minute, time.Millisecond)
}

// A mapping is a line of /proc/self/smaps with what it says about it.
type mapping struct {
	start, end uint64
	values     map[string]string
}

// mappingsOf returns those of an object of this process.
func mappingsOf(t *testing.T, object string) (all []mapping) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/smaps")
	require.NoError(t, err)
	wanted := false
	for line := range strings.Lines(string(b)) {
		m := mapping{values: map[string]string{}}
		if n, _ := fmt.Sscanf(line, "%x-%x ", &m.start, &m.end); n == 2 {
			if wanted = strings.Contains(line, "/memfd:"+object+" "); wanted {
				all = append(all, m)
			}
		} else if name, value, ok := strings.Cut(line, ":"); ok && wanted {
			all[len(all)-1].values[name] = strings.TrimSpace(value)
		}
	}
	return all
}

func virtualKiB(t *testing.T) (kib int64) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	require.NoError(t, err)
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "VmSize:"); ok {
			_, err = fmt.Sscan(value, &kib)
			require.NoError(t, err)
		}
	}
	return kib
}
