package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/client"
)

// daemonScript puts a program called shuffled into PATH.
func daemonScript(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "shuffled"), []byte("#!/bin/sh\n"+script), 0o755))
	t.Setenv("PATH", dir)
}

func TestDaemonOfThisProcessServesUntilItIsStopped(t *testing.T) {
	t.Setenv("PATH", "")
	t.Setenv("TMPDIR", t.TempDir())
	d, err := findDaemon(t.Context(), "")
	require.NoError(t, err)
	require.Equal(t, "a server within this process", d.what)
	c, err := client.Dial(t.Context(), client.WithSocket(d.socket))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	d.stop()
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDaemonThatDoesNotStartIsReportedWithWhatItSaid(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	daemonScript(t, "echo starting >&2; echo no memory for \"$5\" >&2; exit 3\n")
	_, err := findDaemon(t.Context(), "")
	require.ErrorContains(t, err, "start daemon: ")
	require.ErrorContains(t, err, "ended: exit status 3: no memory for 1073741824")
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestDaemonThatDoesNotListenIsStopped(t *testing.T) {
	daemonScript(t, "while :; do :; done\n")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(os.ErrDeadlineExceeded)
	_, err := findDaemon(ctx, "")
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestRunningDaemonIsUsedAsItIs(t *testing.T) {
	d, err := findDaemon(t.Context(), "/some/socket")
	require.NoError(t, err)
	require.Equal(t, "/some/socket", d.socket)
	require.Equal(t, "the one at /some/socket", d.what)
	d.stop()
}
