package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
)

// listenHere listens in this process, until the test ends.
func listenHere(t *testing.T, path string) *socketFile {
	t.Helper()
	s, err := listen(path, -1)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.close() }) // the test may have closed it
	return s
}

func modeOf(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Lstat(path)
	require.NoError(t, err)
	return info.Mode().Perm()
}

func TestSocketAndDirectoryHaveTheirModeWhateverTheUmask(t *testing.T) {
	for _, mask := range []int{0, 0o022, 0o077} {
		path := filepath.Join(filepath.Dir(daemontest.SocketPath(t)), "run", "s.sock")
		old := unix.Umask(mask)
		s, err := listen(path, -1)
		now := unix.Umask(old)
		require.NoError(t, err)
		require.Equal(t, mask, now, "the umask is as before")
		require.Equal(t, os.FileMode(socketMode), modeOf(t, path))
		require.Equal(t, os.FileMode(directoryMode), modeOf(t, filepath.Dir(path)))
		require.NoError(t, s.close())
		require.NoFileExists(t, path)
		require.NoFileExists(t, path+".lock")
	}
}

func TestExistingDirectoryIsLeftAsItIs(t *testing.T) {
	path := daemontest.SocketPath(t)
	require.NoError(t, os.Chmod(filepath.Dir(path), 0o711))
	listenHere(t, path)
	require.Equal(t, os.FileMode(0o711), modeOf(t, filepath.Dir(path)))
}

func TestSocketGoesToItsGroup(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give a socket to a group it is not in")
	}
	path := filepath.Join(filepath.Dir(daemontest.SocketPath(t)), "run", "s.sock")
	s, err := listen(path, 4321)
	require.NoError(t, err)
	for _, file := range []string{path, filepath.Dir(path)} {
		var st unix.Stat_t
		require.NoError(t, unix.Lstat(file, &st))
		require.Equal(t, uint32(4321), st.Gid, file)
	}
	require.NoError(t, s.close())

	for _, row := range []struct {
		o    serveOptions
		want int
	}{
		{serveOptions{}, -1},
		{serveOptions{allowedGIDs: []uint32{7, 8}}, 7},
		{serveOptions{allowedGIDs: []uint32{7, 8}, socketGroup: "9"}, 9},
		{serveOptions{socketGroup: "root"}, 0},
	} {
		gid, err := row.o.socketGID()
		require.NoError(t, err)
		require.Equal(t, row.want, gid)
	}
}

func TestStaleSocketIsReplaced(t *testing.T) {
	path := daemontest.SocketPath(t)
	stale, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	stale.SetUnlinkOnClose(false)
	require.NoError(t, stale.Close())
	require.FileExists(t, path)
	listenHere(t, path)
	conn, err := net.Dial("unixpacket", path)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

func TestLiveSocketIsLeftAlone(t *testing.T) {
	for _, network := range []string{"unixpacket", "unix"} {
		path := daemontest.SocketPath(t)
		live, err := net.Listen(network, path)
		require.NoError(t, err)
		_, err = listen(path, -1)
		require.ErrorContains(t, err, "another process listens on it")
		require.FileExists(t, path)
		require.NoFileExists(t, path+".lock")
		require.NoError(t, live.Close())
	}
}

func TestFileThatIsNoSocketIsLeftAlone(t *testing.T) {
	path := daemontest.SocketPath(t)
	require.NoError(t, os.WriteFile(path, []byte("precious"), 0o600))
	_, err := listen(path, -1)
	require.ErrorContains(t, err, "no socket")
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))
}

func TestSuccessorsSocketIsNotRemoved(t *testing.T) {
	path := daemontest.SocketPath(t)
	s := listenHere(t, path)
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Remove(path+".lock"))
	successor := listenHere(t, path)
	require.NoError(t, s.close())
	require.FileExists(t, path)
	require.FileExists(t, path+".lock")
	conn, err := net.Dial("unixpacket", path)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.NoError(t, successor.close())
	require.NoFileExists(t, path)
}

func TestLockIsHeldOnceAndFreeAfterRelease(t *testing.T) {
	path := daemontest.SocketPath(t) + ".lock"
	l, err := takeLock(path)
	require.NoError(t, err)
	_, err = takeLock(path)
	require.ErrorIs(t, err, errLocked)
	require.ErrorContains(t, err, "pid ")
	require.NoError(t, l.release())
	require.NoFileExists(t, path)

	// A file that a killed daemon left is taken over, whatever it holds.
	require.NoError(t, os.WriteFile(path, []byte(strings.Repeat("9", 100)), 0o600))
	l, err = takeLock(path)
	require.NoError(t, err)
	require.NoError(t, l.release())
}

func TestLockDoesNotFollowALink(t *testing.T) {
	path := daemontest.SocketPath(t)
	require.NoError(t, os.WriteFile(path+".target", []byte("precious"), 0o600))
	require.NoError(t, os.Symlink(path+".target", path+".lock"))
	_, err := listen(path, -1)
	require.ErrorIs(t, err, unix.ELOOP)
	content, err := os.ReadFile(path + ".target")
	require.NoError(t, err)
	require.Equal(t, "precious", string(content))
}

func TestUnusableDirectoriesSayWhatToDo(t *testing.T) {
	dir := filepath.Dir(daemontest.SocketPath(t))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for _, row := range []struct{ path, want string }{
		{filepath.Join(dir, "a", "b", "s.sock"), "create " + filepath.Join(dir, "a") + " first"},
		{filepath.Join(dir, "file", "s.sock"), "is not a directory"},
		{filepath.Join(dir, "file", "sub", "s.sock"), "not a directory"},
	} {
		_, err := listen(row.path, -1)
		require.ErrorContains(t, err, row.want)
	}
}

func TestDirectoryWithoutPermissionSaysWhatToDo(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start the daemon as another user")
	}
	socket := daemontest.SocketPath(t)
	require.NoError(t, os.Chmod(filepath.Dir(socket), 0o755))
	for _, path := range []string{socket, filepath.Join(filepath.Dir(socket), "sub", "s.sock")} {
		d := daemontest.Launch(t, daemontest.Options{Env: []string{asProgram, "TEST_UID=65534"}, Socket: path})
		require.Equal(t, exitError, d.Wait())
		require.Contains(t, d.LogText(), "permission denied")
		require.Contains(t, d.LogText(), "uid 65534 needs write access")
		require.Contains(t, d.LogText(), "RuntimeDirectory=shuffled")
	}
}

func TestSocketPathThatIsTooLongIsAUsageError(t *testing.T) {
	d := launch(t, "/tmp/"+strings.Repeat("s", 103))
	require.Equal(t, exitUsage, d.Wait())
	require.Contains(t, d.LogText(), "got 108 bytes, limit 107")
}
