package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
	"shuffled/internal/units"
	"shuffled/memseg"
	"shuffled/shuffle"
	"shuffled/writer"
)

// kernelFiles writes files as the kernel shows them, below a new root.
func kernelFiles(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, content := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(content+"\n"), 0o644))
	}
	return root
}

func TestMemoryBudgetIsTheLowestLimitOnTheWayToTheRoot(t *testing.T) {
	const meminfo = "MemTotal:       16777216 kB\nMemFree: 1 kB\nSwapTotal:       4194304 kB"
	group := memseg.ChargedCgroup()
	require.NotEmpty(t, group)
	v2, v1 := "sys/fs/cgroup", "sys/fs/cgroup/memory"
	for _, row := range []struct {
		name               string
		files              map[string]string
		limit, defaultSize int64
	}{
		{"no limit", map[string]string{"proc/meminfo": meminfo}, 0, 4 * units.GiB},
		{"version 2, own group", map[string]string{"proc/meminfo": meminfo, v2 + group + "/memory.max": "1073741824"},
			units.GiB, 256 * units.MiB},
		{"version 2, no limit", map[string]string{"proc/meminfo": meminfo, v2 + group + "/memory.max": "max"}, 0,
			4 * units.GiB},
		{"version 2, mount point of a container", map[string]string{"proc/meminfo": meminfo,
			v2 + "/memory.max": "2147483648"}, 2 * units.GiB, 512 * units.MiB},
		{"version 1", map[string]string{"proc/meminfo": meminfo, v1 + group + "/memory.limit_in_bytes": "1073741824"},
			units.GiB, 256 * units.MiB},
		{"version 1, no limit", map[string]string{"proc/meminfo": meminfo,
			v1 + "/memory.limit_in_bytes": "9223372036854771712"}, 0, 4 * units.GiB},
		{"both, the lower", map[string]string{
			"proc/meminfo": meminfo, v1 + "/memory.limit_in_bytes": "3221225472",
			v1 + group + "/memory.limit_in_bytes": "1073741824",
		}, units.GiB, 256 * units.MiB},
		{"small machine", map[string]string{"proc/meminfo": "MemTotal: 1048576 kB\nSwapTotal: 0 kB"}, 0,
			256 * units.MiB},
		{"nothing known", nil, 0, units.GiB},
		{"tiny limit", map[string]string{v2 + "/memory.max": "4096"}, 4096, units.MiB},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := readMemoryBudget(kernelFiles(t, row.files))
			require.Equal(t, row.limit, b.limit)
			require.Equal(t, row.defaultSize, b.defaultMemory())
		})
	}
}

func TestMoreMemoryThanThereIsIsRefusedWithBothNumbers(t *testing.T) {
	b := memoryBudget{machine: 20 * units.GiB, ram: 16 * units.GiB, cgroup: "/pod", limit: units.GiB,
		limitedBy: "memory.max"}
	const control, heap = 64 * units.MiB, 16 * units.MiB
	fits := int64(units.GiB - control - heap - programMemory)
	require.NoError(t, b.check(fits, control, heap))
	err := b.check(fits+1, control, heap)
	require.ErrorContains(t, err, "needed 1073741825 bytes, available 1073741824")
	require.ErrorContains(t, err, "the cgroup /pod (memory.max)")
	require.ErrorContains(t, err, "raise the limit")
	b.limit = 0
	require.NoError(t, b.check(19*units.GiB, control, heap))
	require.ErrorContains(t, b.check(20*units.GiB, control, heap), "the machine's memory and swap")
	require.NoError(t, (&memoryBudget{}).check(maxMemory, 1<<61, 1<<61))
}

func TestControlMemoryFitsWhatIsLeft(t *testing.T) {
	b := memoryBudget{limit: units.GiB}
	require.Equal(t, int64(64*units.MiB), b.controlMemory(64*units.MiB))
	require.Equal(t, int64(128*units.MiB), b.controlMemory(512*units.MiB))
	require.Equal(t, int64(units.GiB-900*units.MiB-programMemory-minHeapMemory), b.controlMemory(900*units.MiB))
	require.Equal(t, int64(minControlMemory), b.controlMemory(units.GiB))
	memory := b.defaultMemory()
	require.NoError(t, b.check(memory, b.controlMemory(memory), b.heapMemory(memory, b.controlMemory(memory))))
	require.Equal(t, int64(128*units.MiB), (&memoryBudget{}).controlMemory(512*units.MiB))
}

func TestHeapMemoryFitsWhatIsLeft(t *testing.T) {
	b := memoryBudget{limit: units.GiB}
	require.Equal(t, int64(64*units.MiB), b.heapMemory(64*units.MiB, 64*units.MiB))
	require.Equal(t, int64(128*units.MiB), b.heapMemory(512*units.MiB, 128*units.MiB))
	require.Equal(t, int64(units.GiB-900*units.MiB-64*units.MiB-programMemory),
		b.heapMemory(900*units.MiB, 64*units.MiB))
	require.Equal(t, int64(minHeapMemory), b.heapMemory(units.GiB, units.MiB))
}

func TestHeapOfTheDaemonIsLimitedByWhatIsBookedForIt(t *testing.T) {
	d := start(t, "--max-heap-memory", "32MiB")
	require.Equal(t, "32MiB", d.FindLog("shuffled starts")["max_heap_memory"])
	require.Equal(t, float64(32*units.MiB+programMemory), d.Metrics()["go_gc_gomemlimit_bytes"])
	d = daemontest.Start(t, daemontest.Options{Env: []string{asProgram, "GOMEMLIMIT=77MiB"}})
	require.Equal(t, float64(77*units.MiB), d.Metrics()["go_gc_gomemlimit_bytes"])
}

// newCgroup makes a memory cgroup with a limit, or skips the test.
func newCgroup(t *testing.T, limit int64) (procs string) {
	t.Helper()
	group := memseg.ChargedCgroup()
	for _, hierarchy := range []struct{ dir, file string }{
		{"/sys/fs/cgroup/memory" + group, "memory.limit_in_bytes"},
		{"/sys/fs/cgroup" + group, "memory.max"},
	} {
		dir := filepath.Join(hierarchy.dir, fmt.Sprintf("shuffled-test-%d", os.Getpid()))
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		t.Cleanup(func() { require.NoError(t, os.Remove(dir)) })
		if os.WriteFile(filepath.Join(dir, hierarchy.file), []byte(strconv.FormatInt(limit, 10)), 0o644) == nil {
			return filepath.Join(dir, "cgroup.procs")
		}
	}
	t.Skipf("no memory cgroup can be made under /sys/fs/cgroup/memory%s or /sys/fs/cgroup%s: not mounted, or not writable", group, group)
	return ""
}

func TestDaemonInASmallCgroupRefusesMoreThanItsLimit(t *testing.T) {
	env := []string{asProgram, "TEST_CGROUP_PROCS=" + newCgroup(t, 128*units.MiB)}
	d := daemontest.Launch(t, daemontest.Options{Env: env, Args: []string{"--memory", "1GiB"}})
	require.Equal(t, exitError, d.Wait())
	require.Contains(t, d.LogText(), "needed 1108344832 bytes, available 134217728")
	require.NoFileExists(t, d.Socket)
}

func TestDaemonInASmallCgroupSurvivesTheUseOfAllItsMemory(t *testing.T) {
	env := []string{asProgram, "TEST_CGROUP_PROCS=" + newCgroup(t, 128*units.MiB)}
	d := daemontest.Start(t, daemontest.Options{Env: env, Args: []string{"--memory", "95MiB"}})
	line := d.FindLog("shuffled starts")
	require.Equal(t, "128MiB", line["cgroup_limit"])
	require.Equal(t, "1MiB", line["max_control_memory"])
	require.Contains(t, line["charged_cgroup"], "shuffled-test-")
	require.Equal(t, float64(128*units.MiB), d.Metrics()["shuffled_memory_limit_bytes"])

	c := dial(t, d)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1,
		Type: shuffle.Pipelined})
	require.NoError(t, err)
	w, err := writer.New(p, shuffle.Bytes{}, writer.Forward[[]byte]())
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(testContext(t))
	wrote := make(chan error, 1)
	go func() {
		for err == nil {
			err = w.Emit(ctx, make([]byte, 8<<10))
		}
		wrote <- err
	}()
	eventually(t, "everything is granted", func() bool { return d.Metrics()[`shuffled_segments{state="free"}`] == 0 })
	require.GreaterOrEqual(t, d.Metrics()[`shuffled_shm_backed_bytes`], float64(95*units.MiB))
	cancel()
	require.ErrorIs(t, <-wrote, context.Canceled)
	require.NoError(t, w.Close())
	eventually(t, "everything is given back", func() bool { return d.Metrics()[`shuffled_shm_backed_bytes`] == 0 })
	require.NoError(t, c.Close())
	d.Signal(unix.SIGTERM)
	require.Zero(t, d.Wait())
}
