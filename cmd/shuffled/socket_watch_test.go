package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
)

// requireServes requires that a daemon is ready, can be dialled, and leaves nothing
// behind at its end.
func requireServes(t *testing.T, d *daemontest.Daemon) {
	t.Helper()
	eventually(t, "it is ready", func() bool { status, _ := d.Get("/readyz"); return status == http.StatusOK })
	require.Equal(t, 1.0, d.Metrics()["shuffled_ready"])
	c := dial(t, d)
	_, err := c.List(testContext(t))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	d.Signal(unix.SIGTERM)
	require.Zero(t, d.Wait(), d.LogText())
	entries, err := os.ReadDir(filepath.Dir(d.Socket))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestSocketThatSomebodyRemovedIsThereAgain(t *testing.T) {
	for _, row := range []struct {
		name, reason string
		remove       func(t *testing.T, socket string)
	}{
		{"socket", "socket_removed", func(t *testing.T, socket string) { require.NoError(t, os.Remove(socket)) }},
		{"lock", "lock_removed", func(t *testing.T, socket string) { require.NoError(t, os.Remove(socket+".lock")) }},
		{"directory", "socket_removed",
			func(t *testing.T, socket string) { require.NoError(t, os.RemoveAll(filepath.Dir(socket))) }},
		{"directory, and made again", "socket_removed", func(t *testing.T, socket string) {
			require.NoError(t, os.RemoveAll(filepath.Dir(socket)))
			require.NoError(t, os.Mkdir(filepath.Dir(socket), 0o700))
		}},
		{"replaced by what nobody listens on", "socket_removed", func(t *testing.T, socket string) {
			require.NoError(t, os.Remove(socket))
			listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
			require.NoError(t, err)
			listener.SetUnlinkOnClose(false)
			require.NoError(t, listener.Close())
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			before := dial(t, d)
			row.remove(t, d.Socket)
			line := d.WaitForLog("somebody removed or replaced the daemon's socket or its lock: new clients may not find it")
			require.Equal(t, row.reason, line["reason"])
			require.Equal(t, "WARN", line["level"])
			d.WaitForLog("listening again")
			_, err := before.List(testContext(t))
			require.NoError(t, err, "those that are connected notice nothing")
			require.NoError(t, before.Close())

			second := launch(t, d.Socket)
			require.Equal(t, exitError, second.Wait())
			require.Contains(t, second.LogText(),
				"another shuffled is running with this socket (pid "+strconv.Itoa(d.PID())+")")
			requireServes(t, d)
		})
	}
}

func TestDaemonWhoseSocketIsTakenIsNotReadyUntilItIsFree(t *testing.T) {
	for _, row := range []struct {
		name string
		take func(t *testing.T, socket string) (free func()) // while the daemon is stopped
		says string
	}{
		{"by another program", func(t *testing.T, socket string) func() {
			require.NoError(t, os.Remove(socket))
			listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: socket, Net: "unixpacket"})
			require.NoError(t, err)
			return func() { require.NoError(t, listener.Close()) }
		}, "another process listens on it"},
		{"by another daemon", func(t *testing.T, socket string) func() {
			require.NoError(t, os.Remove(socket+".lock"))
			require.NoError(t, os.Remove(socket))
			other := daemontest.Start(t, daemontest.Options{Env: []string{asProgram}, Socket: socket})
			return func() {
				other.Signal(unix.SIGTERM)
				require.Zero(t, other.Wait())
			}
		}, "another shuffled is running with this socket"},
		{"by a file", func(t *testing.T, socket string) func() {
			require.NoError(t, os.Remove(socket))
			require.NoError(t, os.WriteFile(socket, nil, 0o600))
			return func() { require.NoError(t, os.Remove(socket)) }
		}, "there is a file that is no socket"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			daemontest.Stop(t, d.PID()) // or it listens again before that
			free := row.take(t, d.Socket)
			d.Signal(unix.SIGCONT)
			line := d.WaitForLog("cannot listen again")
			require.Contains(t, line["error"], row.says)
			status, body := d.Get("/readyz")
			require.Equal(t, http.StatusServiceUnavailable, status)
			require.Equal(t, "not ready: socket_removed\n", body)
			require.Zero(t, d.Metrics()["shuffled_ready"])
			status, _ = d.Get("/healthz")
			require.Equal(t, http.StatusOK, status)
			free()
			d.WaitForLog("listening again")
			requireServes(t, d)
		})
	}
}
