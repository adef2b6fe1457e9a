package main

import (
	"net/http"
	"os"
	"os/signal"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
	"shuffled/shuffle"
)

func TestHangUpDrainsHoweverOftenItComes(t *testing.T) {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGHUP) // or the daemon would inherit that it is ignored, if the tests run under nohup
	defer signal.Stop(caught)
	d := start(t, "--drain-timeout", "1h")
	c := dial(t, d)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	require.NoError(t, err)
	d.Signal(unix.SIGHUP)
	require.Equal(t, "hangup", d.WaitForLog("draining")["signal"])
	d.Signal(unix.SIGHUP)
	d.Signal(unix.SIGHUP)
	status, body := d.Get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "not ready: draining\n", body)
	require.True(t, d.Running())
	require.NoError(t, p.Close())
	require.Zero(t, d.Wait(), d.LogText())
	require.NotNil(t, d.FindLog("drained"))
}

func TestHangUpIsIgnoredUnderNohup(t *testing.T) {
	d := daemontest.Start(t, daemontest.Options{Env: []string{asProgram, "TEST_NOHUP=1"}})
	d.Signal(unix.SIGHUP)
	d.Signal(unix.SIGTERM)
	require.Zero(t, d.Wait())
	require.Equal(t, "terminated", d.FindLog("draining")["signal"])
}

func TestSignalsThatMeanNothingHereChangeNothing(t *testing.T) {
	d := start(t)
	for _, s := range []unix.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGPIPE, unix.SIGALRM, unix.SIGWINCH,
		unix.SIGXFSZ} {
		d.Signal(s)
	}
	status, _ := d.Get("/readyz")
	require.Equal(t, http.StatusOK, status)
	d.Signal(unix.SIGTERM)
	require.Zero(t, d.Wait(), d.LogText())
	require.Equal(t, "terminated", d.FindLog("draining")["signal"])
}

func TestQuitWritesStacksAndTheNextDaemonStarts(t *testing.T) {
	d := start(t)
	d.Signal(unix.SIGQUIT)
	require.Equal(t, exitUsage, d.Wait(), "as the Go runtime has it")
	require.Contains(t, d.LogText(), "goroutine 1")
	again := daemontest.Start(t, daemontest.Options{Env: []string{asProgram}, Socket: d.Socket})
	dial(t, again)
}
