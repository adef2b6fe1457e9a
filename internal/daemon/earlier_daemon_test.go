package daemon

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/ipc"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// startLater starts a server while something of another one is still mapped.
func startLater(t *testing.T, config Config) *testServer {
	s, err := newServer(config, memoryCalls{(*memseg.Memfd).Commit, (*memseg.Memfd).Collapse, hugePageRate},
		time.Millisecond)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return &testServer{s, t}
}

// A worker of a daemon that is gone still has a partition with a quarter of the
// memory.
func TestMemoryThatWorkersOfAnEarlierDaemonHoldIsNotLentAgain(t *testing.T) {
	config := greedyConfig()
	config.Instance = "/run/one/" + t.Name()
	config.AdmissionTimeout = -1
	first := startServer(t, config)
	c := first.greet()
	created := c.createUnbounded(shuffle.NewPartitionID())
	region := c.mapFirst(created.RegionSize, memseg.ReadWrite)
	const held = 64 * pageSize
	touch(region, int64(region.Size())-held, true)
	c.leave()
	require.NoError(t, first.Close())
	touch(region, int64(region.Size())-held, true) // also what was taken away meanwhile

	other := config
	other.Instance = "/run/another/" + t.Name()
	require.Zero(t, startLater(t, other).Snapshot().Memory.Earlier, "other daemons' memory is not this one's")

	s := startLater(t, config)
	now := s.Snapshot()
	require.GreaterOrEqual(t, now.Memory.Earlier, int64(held))
	require.Less(t, now.Memory.Earlier, int64(held+64*minSegmentSize), "and the queues")
	requireBooksBalance(t, now)
	d := s.greet()
	err := ipc.DecodeError(d.ask(createMessage(shuffle.NewPartitionID(), 200)).GetError())
	require.ErrorIs(t, err, shuffle.ErrInsufficientBuffers)
	require.ErrorContains(t, err, "is held without a grant")

	// Its own is not counted twice.
	own := d.createUnbounded(shuffle.NewPartitionID())
	mine := d.mapFirst(own.RegionSize, memseg.ReadWrite)
	s.earlier.scan(nil)
	require.Equal(t, now.Memory.Earlier, s.Snapshot().Memory.Earlier)
	require.NoError(t, mine.Close())

	require.NoError(t, region.Close())
	s.eventually("it is lent once it is given back",
		func(now Snapshot) bool { return now.Memory.Earlier == 0 && now.Pool.Withheld == 0 })
	requireBooksBalance(t, s.Snapshot())
	require.NotNil(t, d.ask(createMessage(shuffle.NewPartitionID(), 200)).GetPartitionCreated())
}

func TestSharedBytesOfACgroupAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "memory.stat")
	_, ok := sharedBytes(path)
	require.False(t, ok)
	require.NoError(t, os.WriteFile(path, []byte("anon 1\nfile 8192\nshmem 4096\nshmem_thp 7\n"), 0o600))
	n, ok := sharedBytes(path)
	require.True(t, ok)
	require.EqualValues(t, 4096, n)
	require.NoError(t, os.WriteFile(path, []byte("shmem many\n"), 0o600))
	_, ok = sharedBytes(path)
	require.False(t, ok)
}

func TestLineOfAMappingIsReadIfItIsOfAMemfd(t *testing.T) {
	m, ok := parseMapping("7f0000000000-7f0000400000 rw-s 00000000 00:01 4711                       /memfd:shuffled-gate@1234.5678 (deleted)\n")
	require.True(t, ok)
	require.Equal(t, sharedMapping{"7f0000000000-7f0000400000", 4711, "shuffled-gate@1234.5678"}, m)
	for _, line := range []string{
		"", "Rss: 12 kB", "7f0000000000-7f0000400000 rw-p 00000000 00:00 0\n",
		"7f0000000000-7f0000400000 rw-s 0 00:01 4711 /dev/shm/x",
		"7f0000000000-7f0000400000 rw-s 0 00:01 many /memfd:x",
	} {
		_, ok := parseMapping(line)
		require.False(t, ok, line)
	}
}
