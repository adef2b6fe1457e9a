package ipc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
)

// testPatience bounds what a test waits for; none depends on its length.
const testPatience = 30 * time.Second

func TestMain(m *testing.M) {
	leaktest.Main(m)
}

// newPair returns both ends of a connection, which the end of the test closes.
func newPair(t testing.TB) (a, b *Conn) {
	t.Helper()
	a, b, err := Pair()
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, a.Close())
		require.NoError(t, b.Close())
	})
	return a, b
}

// fillSocket sends hellos until the peer's socket takes none, not a small one either,
// and returns their number. Their request ids are from 1.
func fillSocket(t testing.TB, c *Conn) (sent uint64) {
	t.Helper()
	for size := 60_000; ; {
		packet, err := encodeMessage(nil, hello(sent+1, size))
		require.NoError(t, err)
		require.NoError(t,
			c.raw.Control(func(fd uintptr) { err = unix.Sendto(int(fd), packet, unix.MSG_DONTWAIT, nil) }))
		switch {
		case err == nil:
			sent++
		case size == 0:
			require.ErrorIs(t, err, unix.EAGAIN)
			return sent
		default:
			require.ErrorIs(t, err, unix.EAGAIN)
			size = 0
		}
	}
}

// newRawPair returns a Conn and the bare socket of its peer, for packets that no
// Conn would send.
func newRawPair(t testing.TB) (c *Conn, peer int) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	c, err = NewConnFD(fds[0])
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, c.Close())
		_ = unix.Close(fds[1]) // tests may have closed it
	})
	return c, fds[1]
}

// newFile returns a descriptor of a file in memory with these contents.
func newFile(t testing.TB, contents string) int {
	t.Helper()
	fd, err := unix.MemfdCreate("ipc-test", unix.MFD_CLOEXEC)
	require.NoError(t, err)
	_, err = unix.Pwrite(fd, []byte(contents), 0)
	require.NoError(t, err)
	return fd
}

// newFiles returns n descriptors of one file, closed at the end of the test.
func newFiles(t testing.TB, n int) []int {
	t.Helper()
	fds := FDs{newFile(t, "shared")}
	for len(fds) < n {
		fds = append(fds, dup(t, fds[0]))
	}
	t.Cleanup(fds.Close)
	return fds
}

// dup returns another descriptor of a file, which the caller closes.
func dup(t testing.TB, fd int) int {
	t.Helper()
	copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	require.NoError(t, err)
	return copied
}

// contents reads what a descriptor's file holds.
func contents(t testing.TB, fd int) string {
	t.Helper()
	buf := make([]byte, 64)
	n, err := unix.Pread(fd, buf, 0)
	require.NoError(t, err)
	return string(buf[:n])
}
