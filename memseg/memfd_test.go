package memseg

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
)

const mib = 1 << 20

// withFD runs f with the descriptor of m.
func withFD(t testing.TB, m *Memfd, f func(fd int)) {
	t.Helper()
	require.NoError(t, m.control(func(fd int) error { f(fd); return nil }))
}

func TestSizeOfASharedObjectIsFixed(t *testing.T) {
	leaktest.Check(t)
	m := newMemfd(t, 3*pageSize)
	withFD(t, m, func(fd int) {
		seals, err := unix.FcntlInt(uintptr(fd), unix.F_GET_SEALS, 0)
		require.NoError(t, err)
		require.Equal(t, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW, seals&(unix.F_SEAL_SHRINK|unix.F_SEAL_GROW))
		require.Zero(t, seals&unix.F_SEAL_WRITE)
		for _, size := range []int64{0, pageSize, 3*pageSize - 1, 3*pageSize + 1, 1 << 30} {
			require.ErrorIs(t, unix.Ftruncate(fd, size), unix.EPERM, "to %d bytes", size)
		}
		require.NoError(t, unix.Ftruncate(fd, 3*pageSize), "to its own size")
	})
}

func TestSharedObjectIsReadableByItsOwnerAlone(t *testing.T) {
	m := newMemfd(t, 1)
	withFD(t, m, func(fd int) {
		var st unix.Stat_t
		require.NoError(t, unix.Fstat(fd, &st))
		require.EqualValues(t, 0o400, st.Mode&0o7777)
		flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
		require.NoError(t, err)
		require.Equal(t, unix.FD_CLOEXEC, flags)
	})
}

func TestSharedObjectCannotBeExecuted(t *testing.T) {
	if !SupportsNoExecSeal() {
		t.Skip("this kernel does not know MFD_NOEXEC_SEAL (Linux 6.3)")
	}
	m := newMemfd(t, 1)
	withFD(t, m, func(fd int) { require.ErrorIs(t, unix.Fchmod(fd, 0o700), unix.EPERM) })
}

func TestSizeIsRoundedUpToPages(t *testing.T) {
	for _, row := range []struct{ size, want int64 }{{1, 4096}, {4096, 4096}, {4097, 8192}, {1 << 40, 1 << 40}} {
		m := newMemfd(t, row.size)
		require.Equal(t, row.want, m.Size())
		backed, err := m.BackedBytes()
		require.NoError(t, err)
		require.Zero(t, backed, "no page is backed before Commit")
	}
	for _, size := range []int64{0, -1} {
		_, err := CreateMemfd("memseg-test", size)
		require.ErrorIs(t, err, ErrRegionSize)
	}
}

func TestEveryCallAfterCloseIsRefused(t *testing.T) {
	leaktest.Check(t)
	m, err := CreateMemfd("memseg-test", pageSize)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	for name, call := range map[string]func() error{
		"Close":           m.Close,
		"HandOut":         func() error { _, err := m.HandOut(); return err },
		"Alone":           func() error { _, err := m.Alone(); return err },
		"ReopenReadOnly":  func() error { _, err := m.ReopenReadOnly(); return err },
		"Commit":          func() error { return m.Commit(0, pageSize) },
		"Punch":           func() error { return m.Punch(0, pageSize) },
		"WriteAt":         func() error { return m.WriteAt([]byte{1}, 0) },
		"SealFutureWrite": m.SealFutureWrite,
		"SealSeals":       m.SealSeals,
		"BackedBytes":     func() error { _, err := m.BackedBytes(); return err },
		"Map":             func() error { _, err := m.Map(ReadOnly, 0); return err },
	} {
		require.ErrorIs(t, call(), ErrClosed, name)
	}
	require.EqualValues(t, pageSize, m.Size())
}

func TestMappingsOutliveTheDescriptor(t *testing.T) {
	leaktest.Check(t)
	m, err := CreateMemfd("memseg-test", pageSize)
	require.NoError(t, err)
	region, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	require.NoError(t, m.Close())
	region.Bytes()[0] = 42
	require.NoError(t, region.Close())
}

func TestMapOfAPartAndBeyondTheObject(t *testing.T) {
	leaktest.Check(t)
	m := newMemfd(t, 4*pageSize)
	region, err := m.Map(ReadOnly, pageSize)
	require.NoError(t, err)
	require.Equal(t, pageSize, region.Size())
	require.NoError(t, region.Close())
	for _, length := range []int64{-1, 4*pageSize + 1, 1 << 60} {
		_, err := m.Map(ReadOnly, length)
		require.ErrorIs(t, err, ErrRegionSize, "%d bytes", length)
	}
}

// receive hands a duplicate of fd to ReceiveMemfd, as the control connection
// does with a received descriptor.
func receive(t *testing.T, fd int, size int64) (*Memfd, error) {
	t.Helper()
	dup, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return ReceiveMemfd(dup, size, "received")
}

func TestReceivedDescriptorIsRefusedUnlessItIsASealedObjectOfItsSize(t *testing.T) {
	leaktest.Check(t)
	file := func(dir string) func(*testing.T) int {
		return func(t *testing.T) int {
			if _, err := os.Stat(dir); err != nil {
				t.Skipf("no directory for the file: %v", err)
			}
			fd, err := unix.Open(filepath.Join(dir, "memseg-test-"+filepath.Base(t.TempDir())),
				unix.O_CREAT|unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0o600)
			require.NoError(t, err)
			path, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
			require.NoError(t, err)
			require.NoError(t, os.Remove(path))
			require.NoError(t, unix.Ftruncate(fd, pageSize))
			return fd
		}
	}
	memfd := func(size int64, seals int) func(*testing.T) int {
		return func(t *testing.T) int {
			fd, err := unix.MemfdCreate("memseg-test", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
			require.NoError(t, err)
			require.NoError(t, unix.Ftruncate(fd, size))
			_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals)
			require.NoError(t, err)
			return fd
		}
	}
	pipe := func(t *testing.T) int {
		var fds [2]int
		require.NoError(t, unix.Pipe2(fds[:], unix.O_CLOEXEC))
		require.NoError(t, unix.Close(fds[1]))
		return fds[0]
	}
	for _, row := range []struct {
		name string
		open func(*testing.T) int
		size int64
		want error
	}{
		{"regular file", file(t.TempDir()), pageSize, ErrNotMemfd},
		{"file of a memory file system", file("/dev/shm"), pageSize, ErrNotSealed},
		{"pipe", pipe, pageSize, ErrNotMemfd},
		{"unsealed object", memfd(pageSize, 0), pageSize, ErrNotSealed},
		{"object that may shrink", memfd(pageSize, unix.F_SEAL_GROW), pageSize, ErrNotSealed},
		{"object that may grow", memfd(pageSize, unix.F_SEAL_SHRINK), pageSize, ErrNotSealed},
		{"object that is smaller", memfd(pageSize, sizeSeals), 2 * pageSize, ErrRegionSize},
		{"object that is larger", memfd(2*pageSize, sizeSeals), pageSize, ErrRegionSize},
		{"empty object", memfd(0, sizeSeals), 0, ErrRegionSize},
		{"negative size", memfd(pageSize, sizeSeals), -pageSize, ErrRegionSize},
	} {
		t.Run(row.name, func(t *testing.T) {
			leaktest.Check(t) // the descriptor is closed
			fd := row.open(t)
			defer func() { require.NoError(t, unix.Close(fd)) }()
			_, err := receive(t, fd, row.size)
			require.ErrorIs(t, err, row.want)
		})
	}
	t.Run("no descriptor", func(t *testing.T) {
		leaktest.Check(t)
		_, err := ReceiveMemfd(-1, pageSize, "received")
		require.Error(t, err)
		_, err = ReceiveMemfd(1<<20, pageSize, "received")
		require.Error(t, err)
	})
}

func TestSenderCannotTruncateAnObjectUnderItsReader(t *testing.T) {
	leaktest.Check(t)
	sender := newMemfd(t, 2*pageSize)
	require.NoError(t, sender.WriteAt([]byte("payload"), pageSize))
	withFD(t, sender, func(fd int) {
		m, err := receive(t, fd, 2*pageSize)
		require.NoError(t, err)
		region, err := m.Map(ReadOnly, 0)
		require.NoError(t, err)
		require.ErrorIs(t, unix.Ftruncate(fd, 0), unix.EPERM)
		require.ErrorIs(t, unix.Ftruncate(fd, pageSize), unix.EPERM)
		require.Equal(t, "payload", string(region.Bytes()[pageSize:pageSize+7]))
		require.NoError(t, region.Close())
		require.NoError(t, m.Close())
	})
}

func TestFutureWriteSealKeepsThePresentWriterAndRefusesNewOnes(t *testing.T) {
	leaktest.Check(t)
	m := newMemfd(t, 2*pageSize)
	require.NoError(t, m.Commit(0, pageSize))
	writer, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	require.NoError(t, m.SealFutureWrite())

	reader, err := m.Map(ReadOnly, 0)
	require.NoError(t, err)
	writer.Bytes()[5] = 42
	writer.Bytes()[pageSize] = 43 // a page that was not backed yet
	require.Equal(t, byte(42), reader.Bytes()[5])
	require.Equal(t, byte(43), reader.Bytes()[pageSize])

	_, err = m.Map(ReadWrite, 0)
	require.ErrorIs(t, err, unix.EPERM)
	require.ErrorIs(t, unix.Mprotect(reader.Bytes(), unix.PROT_READ|unix.PROT_WRITE), unix.EACCES)
	require.ErrorIs(t, m.WriteAt([]byte{1}, 0), unix.EPERM)
	require.ErrorIs(t, m.Punch(0, pageSize), unix.EPERM)
	require.NoError(t, m.Commit(0, 2*pageSize), "memory can still be added")
	require.NoError(t, writer.Close())
	_, err = m.Map(ReadWrite, 0)
	require.ErrorIs(t, err, unix.EPERM, "also once the writer is gone")
	require.NoError(t, reader.Close())
}

func TestSealedSealsRefuseFurtherOnes(t *testing.T) {
	m := newMemfd(t, pageSize)
	require.NoError(t, m.SealSeals())
	require.ErrorIs(t, m.SealFutureWrite(), unix.EPERM)
	region, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	require.NoError(t, region.Close())
}

func TestPunchGivesMemoryBackAndLeavesZeros(t *testing.T) {
	leaktest.Check(t)
	m := newMemfd(t, 4*mib)
	region, err := m.Map(ReadWrite, 0)
	require.NoError(t, err)
	backed := func() int64 {
		n, err := m.BackedBytes()
		require.NoError(t, err)
		return n
	}
	require.NoError(t, m.Commit(mib, 2*mib))
	require.EqualValues(t, 2*mib, backed())
	for i := mib; i < 3*mib; i++ {
		region.Bytes()[i] = 0xaa
	}
	require.NoError(t, m.Commit(mib, 2*mib), "what is backed can be committed again")
	require.EqualValues(t, 2*mib, backed())

	require.NoError(t, m.Punch(mib, mib))
	require.EqualValues(t, mib, backed())
	require.Equal(t, make([]byte, mib), bytes.Clone(region.Bytes()[mib:2*mib]))
	require.EqualValues(t, 2*mib, backed(), "a load of a hole in a writable mapping backs it again")
	require.Equal(t, bytes.Repeat([]byte{0xaa}, mib), region.Bytes()[2*mib:3*mib])
	require.NoError(t, m.Punch(0, 4*mib))
	require.Zero(t, backed())
	require.NoError(t, m.Commit(mib, pageSize))
	region.Bytes()[mib] = 1
	require.NoError(t, region.Close())
}

func TestCommitBeyondTheObjectIsRefused(t *testing.T) {
	m := newMemfd(t, pageSize)
	require.Error(t, m.Commit(pageSize, pageSize))
	require.Error(t, m.Commit(-pageSize, pageSize))
	require.Error(t, m.Commit(0, 0))
	require.EqualValues(t, pageSize, m.Size())
	backed, err := m.BackedBytes()
	require.NoError(t, err)
	require.Zero(t, backed)
}

func TestStoreToAReadOnlyMappingIsAnError(t *testing.T) {
	leaktest.Check(t)
	m := newMemfd(t, pageSize)
	region, err := m.Map(ReadOnly, 0)
	require.NoError(t, err)
	store := func() (err error) {
		defer RecoverFault(debug.SetPanicOnFault(true), "spoil the region", &err)
		region.Bytes()[0] = 1
		return nil
	}
	err = store()
	require.ErrorIs(t, err, ErrFault)
	require.ErrorContains(t, err, "spoil the region")
	require.NoError(t, region.Close())
}

func TestLoadBeyondTheEndOfAnObjectIsAnError(t *testing.T) {
	leaktest.Check(t)
	fd, err := unix.MemfdCreate("memseg-test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(fd)) }()
	require.NoError(t, unix.Ftruncate(fd, 2*pageSize))
	mem, err := unix.Mmap(fd, 0, 2*pageSize, unix.PROT_READ, unix.MAP_SHARED)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	require.NoError(t, unix.Ftruncate(fd, pageSize)) // nothing is sealed here
	load := func(i int) (b byte, err error) {
		defer RecoverFault(debug.SetPanicOnFault(true), "read the region", &err)
		return mem[i], nil
	}
	_, err = load(pageSize - 1)
	require.NoError(t, err)
	_, err = load(pageSize)
	require.ErrorIs(t, err, ErrFault)
	require.PanicsWithValue(t, "ours", func() {
		var err error
		defer RecoverFault(debug.SetPanicOnFault(true), "panic", &err)
		panic("ours")
	}, "other panics go on")
}
