package ipc

import (
	"context"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

func TestDialReachesTheListener(t *testing.T) {
	leaktest.Check(t)
	dialled, accepted := newSocket(t)
	require.NoError(t, dialled.Send(hello(5, 0)))
	got := &controlpb.ClientMessage{}
	_, err := accepted.Receive(got)
	require.NoError(t, err)
	requireMessage(t, hello(5, 0), got)
}

func TestDialErrorsSayWhatWhereAndWhatToDo(t *testing.T) {
	leaktest.Check(t)
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }

	dead, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: at("dead"), Net: "unixpacket"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	stream, err := net.ListenUnix("unix", &net.UnixAddr{Name: at("stream"), Net: "unix"})
	require.NoError(t, err)
	defer stream.Close()
	require.NoError(t, os.WriteFile(at("file"), nil, 0o600))

	for _, test := range []struct {
		name, path string
		is         error
		says       []string
	}{
		{"no such file", at("none"), fs.ErrNotExist, []string{"no such file or directory", at("none"),
			"is the daemon running", "$SHUFFLED_SOCKET"}},
		{"no such directory", at("none/s"), fs.ErrNotExist, []string{"no such file or directory", at("none/s"),
			"is the daemon running"}},
		{"nobody listens", at("dead"), unix.ECONNREFUSED, []string{"connection refused", at("dead"), "nobody listens"}},
		{"a regular file", at("file"), unix.ECONNREFUSED, []string{"connection refused", at("file"), "nobody listens"}},
		{"a file for a directory", at("file/s"), unix.ENOTDIR, []string{"not a directory", at("file/s")}},
		{"another program's socket", at("stream"), unix.EPROTOTYPE, []string{at("stream"), "SOCK_SEQPACKET",
			"another program"}},
		{"empty", "", shuffle.ErrInvalidArgument, []string{"socket path is empty"}},
		{"abstract", "@shuffled", shuffle.ErrInvalidArgument, []string{`"@shuffled"`, "abstract"}},
		{"with a NUL", "/run/\x00s", shuffle.ErrInvalidArgument, []string{"NUL"}},
		{"too long", "/" + strings.Repeat("d", 107), shuffle.ErrInvalidArgument,
			[]string{"got 108 bytes, limit 107", "shorter"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := Dial(t.Context(), test.path)
			require.ErrorIs(t, err, test.is)
			for _, part := range append(test.says, "dial shuffled") {
				require.ErrorContains(t, err, part)
			}
		})
	}
}

func TestLongestSocketPathCanBeListenedOnAndDialled(t *testing.T) {
	leaktest.Check(t)
	t.Chdir(t.TempDir())
	path := strings.Repeat("s", MaxSocketPath)
	require.NoError(t, CheckSocketPath(path))
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	defer listener.Close()
	c, err := Dial(t.Context(), path)
	require.NoError(t, err)
	require.NoError(t, c.Close())
}

// asNobody runs a function on a thread that has no rights on others' files.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		f()
		return
	}
	// The file system ids are those of the thread, and so is the loss of root's
	// capabilities on files.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	require.NoError(t, unix.Setfsuid(65534))
	defer func() { require.NoError(t, unix.Setfsuid(0)) }()
	f()
}

func TestDialWithoutPermissionIsErrPermission(t *testing.T) {
	leaktest.Check(t)
	path := filepath.Join(t.TempDir(), "s")
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	defer listener.Close()
	require.NoError(t, os.Chmod(path, 0))
	asNobody(t, func() { _, err = Dial(t.Context(), path) })
	require.ErrorIs(t, err, shuffle.ErrPermission)
	require.ErrorIs(t, err, fs.ErrPermission)
	require.ErrorIs(t, err, unix.EACCES)
	require.ErrorContains(t, err, "dial shuffled at "+path+": permission denied: uid ")
	require.Equal(t, 1, strings.Count(err.Error(), "permission denied"))
}

func TestDialWaitsForAFullBacklogAsLongAsItsContext(t *testing.T) {
	leaktest.Check(t)
	path := filepath.Join(t.TempDir(), "s")
	listener, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	defer unix.Close(listener)
	require.NoError(t, unix.Bind(listener, &unix.SockaddrUnix{Name: path}))
	require.NoError(t, unix.Listen(listener, 0))
	first, err := Dial(t.Context(), path)
	require.NoError(t, err)
	defer first.Close()

	// A time that has passed before Dial could ask says nothing of the backlog.
	for patience := 50 * time.Millisecond; ; patience *= 2 {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err = Dial(ctx, path)
		cancel()
		require.ErrorIs(t, err, context.DeadlineExceeded)
		if patience > testPatience || strings.Contains(err.Error(), "the daemon does not accept") {
			break
		}
	}
	require.ErrorContains(t, err, "the daemon does not accept")

	dialled := make(chan error, 1)
	go func() {
		second, err := Dial(context.Background(), path)
		if err == nil {
			err = second.Close()
		}
		dialled <- err
	}()
	accepted, _, err := unix.Accept4(listener, unix.SOCK_CLOEXEC)
	require.NoError(t, err)
	require.NoError(t, unix.Close(accepted))
	require.NoError(t, <-dialled)
}

func TestDialIsEndedByItsContext(t *testing.T) {
	leaktest.Check(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Dial(ctx, filepath.Join(t.TempDir(), "s"))
	require.ErrorIs(t, err, context.Canceled)
}
