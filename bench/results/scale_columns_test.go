package results

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTableOfSubpartitionsShowsCostAndMemoryOfEach(t *testing.T) {
	f := &File{Format: FormatVersion, Workload: "fanout"}
	f.Add(Settings{Transport: "shm", Subpartitions: 8}, Round{CostPerRecord: 20, MemoryPerSubpartition: 64 << 10,
		PeakPerSubpartition: 1536})
	f.Add(Settings{Transport: "unix", Subpartitions: 8}, Round{CostPerRecord: 40})
	f.Add(Settings{Transport: "tcp"}, Round{CostPerRecord: 40})
	var out bytes.Buffer
	require.NoError(t, f.WriteTable(&out))
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, strings.Fields("transport subpartitions CPU ns/record KiB each peak"), strings.Fields(lines[0]))
	require.Equal(t, strings.Fields("shm 8 20.0 64.0 1.5"), strings.Fields(lines[1]))
	require.Equal(t, strings.Fields("unix 8 40.0 - -"), strings.Fields(lines[2]))
	require.Equal(t, strings.Fields("tcp - - - -"), strings.Fields(lines[3]))
}

func TestTableOfPartitionsShowsWhatTheDaemonTakes(t *testing.T) {
	f := &File{Format: FormatVersion, Workload: "scale"}
	f.Add(Settings{Transport: "shm", Partitions: 10_000}, Round{
		AttachP50: 250_000, SharedMemory: 3 << 20, DaemonFiles: 40_012, DaemonIdleCores: 0.0123, WorkerThreads: 39,
	})
	var out bytes.Buffer
	require.NoError(t, f.WriteTable(&out))
	lines := strings.Split(out.String(), "\n")
	require.Equal(t, strings.Fields("transport partitions attach p50 shared fds idle threads"),
		strings.Fields(lines[0]))
	require.Equal(t, strings.Fields("shm 10000 250.0µs 3.0 MiB 40012 1.23% 39"), strings.Fields(lines[1]))
}
