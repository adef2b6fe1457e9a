package results

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func writeSystemFiles(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	return root
}

func TestMachineIsReadFromTheFilesOfTheSystem(t *testing.T) {
	const cache = "sys/devices/system/cpu/cpu0/cache/"
	m := describeMachine(writeSystemFiles(t, map[string]string{
		"proc/cpuinfo":              "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nprocessor\t: 1\nmodel name\t: Other\n",
		"proc/meminfo":              "MemTotal:       1024 kB\nMemFree: 1 kB\n",
		"proc/loadavg":              "1.50 1.00 0.50 1/100 1\n",
		"proc/sys/kernel/osrelease": "6.1.0\n",
		"proc/self/cgroup":          "0::/outer/inner\n",
		"sys/kernel/mm/transparent_hugepage/enabled":           "always [madvise] never\n",
		"sys/kernel/mm/transparent_hugepage/shmem_enabled":     "always within_size [never]\n",
		"sys/fs/cgroup/outer/inner/memory.max":                 "max\n",
		"sys/fs/cgroup/outer/memory.max":                       "2048\n",
		"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
		cache + "index0/level":                                 "1\n",
		cache + "index0/type":                                  "Data\n",
		cache + "index0/size":                                  "48K\n",
		cache + "index1/level":                                 "2\n",
		cache + "index1/type":                                  "Unified\n",
		cache + "index1/size":                                  "2048K\n",
	}))
	require.Equal(t, "Some CPU @ 2 GHz", m.CPU)
	require.Equal(t, runtime.NumCPU(), m.Cores)
	require.Equal(t, []Cache{{1, "data", 48 << 10}, {2, "unified", 2 << 20}}, m.Caches)
	require.Equal(t, "6.1.0", m.Kernel)
	require.Equal(t, "madvise", m.THP)
	require.Equal(t, "never", m.ShmemTHP)
	require.EqualValues(t, 1<<20, m.Memory)
	require.EqualValues(t, 2048, m.MemoryLimit)
	require.Equal(t, "powersave", m.Governor)
	require.InDelta(t, 1.5, m.Load, 1e-9)
	require.Positive(t, m.NoFile)
	require.Contains(t, m.String(), "L2 2.0 MiB")
}

func TestMachineMemoryLimitOfTheFirstVersionOfControlGroups(t *testing.T) {
	for limit, want := range map[string]int64{"4096\n": 4096, "9223372036854771712\n": 0} {
		root := writeSystemFiles(t, map[string]string{
			"proc/self/cgroup": "5:cpu:/\n4:memory:/job\n0::/\n",
			"sys/fs/cgroup/memory/job/memory.limit_in_bytes": limit,
		})
		require.Equal(t, want, describeMachine(root).MemoryLimit)
	}
}

func TestMachineLeavesOutWhatTheSystemDoesNotTell(t *testing.T) {
	m := describeMachine(t.TempDir())
	m.NoFile = 0
	require.Equal(t, Machine{Cores: m.Cores, GoMaxProcs: m.GoMaxProcs, Go: m.Go}, m)
}
