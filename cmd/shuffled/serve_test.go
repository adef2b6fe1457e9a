package main

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/test/daemontest"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// start starts a daemon that is ready.
func start(t *testing.T, args ...string) *daemontest.Daemon {
	t.Helper()
	return daemontest.Start(t, daemontest.Options{Env: []string{asProgram}, Args: args})
}

// launch starts a daemon at a socket that need not become ready.
func launch(t *testing.T, socket string, args ...string) *daemontest.Daemon {
	t.Helper()
	return daemontest.Launch(t, daemontest.Options{Env: []string{asProgram}, Socket: socket, Args: args})
}

// eventually waits for something that must happen.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	require.Eventually(t, condition, daemontest.Patience, 5*time.Millisecond, what)
}

func testContext(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), daemontest.Patience)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, d *daemontest.Daemon) *client.Client {
	t.Helper()
	c, err := client.Dial(testContext(t), client.WithSocket(d.Socket))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() }) // the test may have closed it
	return c
}

// write writes records and finishes the partition.
func write(t *testing.T, p shuffle.ResultPartition, records ...string) writer.Counters {
	t.Helper()
	w, err := writer.New(p, shuffle.Strings{}, writer.Rebalance[string]())
	require.NoError(t, err)
	for _, rec := range records {
		require.NoError(t, w.Emit(testContext(t), rec))
	}
	require.NoError(t, w.Finish(testContext(t)))
	return w.Counters()
}

// oneInput opens a gate of one channel.
func oneInput(t *testing.T, c *client.Client, id shuffle.PartitionID) shuffle.InputGate {
	t.Helper()
	gate, err := c.OpenGate(testContext(t), shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}},
		Timeout: daemontest.Patience})
	require.NoError(t, err)
	return gate
}

func TestDaemonStartsServesAndLeavesNothingBehind(t *testing.T) {
	d := start(t, "--segment-size", "4KiB")
	line := d.FindLog("shuffled starts")
	require.Equal(t, d.Socket, line["socket"])
	require.Equal(t, "64MiB", line["memory"])
	require.Equal(t, "4KiB", line["segment_size"])
	require.Equal(t, float64(16384), line["segments"])
	require.NotEmpty(t, line["version"])
	require.NotEmpty(t, line["descriptors"])
	require.Contains(t, line, "charged_cgroup")
	require.Contains(t, line, "cgroup_limit")

	c := dial(t, d)
	require.Equal(t, 4096, c.Daemon().SegmentSize)
	require.NoError(t, c.Close())

	d.Signal(unix.SIGTERM)
	require.Zero(t, d.Wait(), d.LogText())
	require.NotNil(t, d.FindLog("shuffled has stopped"))
	entries, err := os.ReadDir(filepath.Dir(d.Socket))
	require.NoError(t, err)
	require.Empty(t, entries)
}

func TestInterruptStopsLikeTerminate(t *testing.T) {
	d := start(t)
	d.Signal(unix.SIGINT)
	require.Zero(t, d.Wait())
}

func TestSettingsComeFromTheEnvironment(t *testing.T) {
	d := daemontest.Start(t,
		daemontest.Options{Env: []string{asProgram, "SHUFFLED_SEGMENT_SIZE=8KiB", "SHUFFLED_MEMORY=1GiB"}})
	require.Equal(t, "8KiB", d.FindLog("shuffled starts")["segment_size"])
	require.Equal(t, "64MiB", d.FindLog("shuffled starts")["memory"], "the flag goes first")
}

func TestDescriptorLimitIsRaisedAndLogged(t *testing.T) {
	d := daemontest.Start(t, daemontest.Options{Env: []string{asProgram, "TEST_NOFILE=512"}})
	require.Equal(t, 512.0, d.FindLog("shuffled starts")["descriptors"])
	require.Equal(t, "few_descriptors", d.WaitForLog("degraded")["reason"])
	require.Equal(t, 1.0, d.Metrics()[`shuffled_degraded{reason="few_descriptors"}`])
	limits, err := os.ReadFile("/proc/" + strconv.Itoa(d.PID()) + "/limits")
	require.NoError(t, err)
	require.Regexp(t, `Max open files +512 +512`, string(limits))
}

func TestDaemonShedsPartitionsBeforeItRunsOutOfDescriptors(t *testing.T) {
	d := daemontest.Start(t, daemontest.Options{Env: []string{asProgram, "TEST_NOFILE=256"}})
	c := dial(t, d)
	var partitions []shuffle.ResultPartition
	for {
		p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
			Subpartitions: 1})
		if err != nil {
			require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
			require.ErrorContains(t, err, "limit RLIMIT_NOFILE of the daemon")
			break
		}
		partitions = append(partitions, p)
	}
	require.Len(t, partitions, (256-reservedDescriptors-1)/2)
	status, _ := d.Get("/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 1.0, d.Metrics()[`shuffled_admission_rejects_total{reason="quota_exceeded"}`])
	for _, p := range partitions {
		require.NoError(t, p.Close())
	}
	eventually(t, "there is room again", func() bool {
		p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
			Subpartitions: 1})
		return err == nil && p.Close() == nil
	})
	require.Equal(t, 50, clientDescriptors(100))
	require.Equal(t, 1024-reservedDescriptors, clientDescriptors(1024))
	require.Equal(t, maxCount, clientDescriptors(math.MaxUint64))
}

func TestDegradationsAreLoggedAndCounted(t *testing.T) {
	d := start(t, "--memory", "4KiB", "--segment-size", "4KiB", "--memory", "8KiB")
	metrics := d.Metrics()
	logged := make(map[string]bool)
	if line := d.FindLog("degraded"); line != nil {
		logged[line["reason"].(string)] = true
	}
	for _, g := range probeDegradations(newServeOptions(), fewDescriptors) {
		require.Contains(t, metrics, `shuffled_degraded{reason="`+g.reason+`"}`)
		require.Equal(t, oneIf(logged[g.reason]), metrics[`shuffled_degraded{reason="`+g.reason+`"}`], g.reason)
	}

	o := newServeOptions()
	o.budget = memoryBudget{}
	for _, g := range probeDegradations(o, fewDescriptors-1) {
		if g.reason == "few_descriptors" || g.reason == "memory_limit_unknown" {
			require.True(t, g.active, g.reason)
		}
	}
}

func TestReadinessSaysWhyNot(t *testing.T) {
	d := start(t, "--drain-timeout", "1h")
	status, body := d.Get("/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "ok\n", body)
	status, _ = d.Get("/readyz")
	require.Equal(t, http.StatusOK, status)

	c := dial(t, d)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	require.NoError(t, err)
	d.Signal(unix.SIGTERM)
	d.WaitForLog("draining")
	status, body = d.Get("/readyz")
	require.Equal(t, http.StatusServiceUnavailable, status)
	require.Equal(t, "not ready: draining\n", body)
	status, _ = d.Get("/healthz")
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, 1.0, d.Metrics()["shuffled_draining"])
	require.NoError(t, p.Close())
	require.Zero(t, d.Wait())

	r := newReadiness()
	require.Equal(t, []string{"starting"}, r.pending())
}

func TestDrainWaitsForTheAttachedProducerAndRefusesNewOnes(t *testing.T) {
	d := start(t, "--drain-timeout", "1h")
	c := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	gate := oneInput(t, c, id)

	d.Signal(unix.SIGTERM)
	d.WaitForLog("draining")
	_, err = c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	require.ErrorIs(t, err, shuffle.ErrDraining)
	require.ErrorContains(t, err, "draining")
	write(t, p, "written while draining")
	var got []string
	for rec, err := range reader.Records(testContext(t), gate, shuffle.Strings{}) {
		require.NoError(t, err)
		got = append(got, rec)
	}
	require.Equal(t, []string{"written while draining"}, got)
	require.True(t, d.Running())
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	require.Zero(t, d.Wait())
	require.NotNil(t, d.FindLog("drained"))
}

func TestDrainLetsAFinishedPartitionBeRead(t *testing.T) {
	d := start(t, "--drain-timeout", "1h")
	c := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	write(t, p, "kept")
	require.NoError(t, p.Close())

	d.Signal(unix.SIGTERM)
	d.WaitForLog("draining")
	late := dial(t, d)
	gate := oneInput(t, late, id)
	for rec, err := range reader.Records(testContext(t), gate, shuffle.Strings{}) {
		require.NoError(t, err)
		require.Equal(t, "kept", rec)
	}
	require.NoError(t, gate.Close())
	require.Zero(t, d.Wait())
}

func TestDrainEndsAtItsTimeout(t *testing.T) {
	d := start(t, "--drain-timeout", "10ms")
	c := dial(t, d)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	require.NoError(t, err)
	d.Signal(unix.SIGTERM)
	require.Equal(t, exitDropped, d.Wait())
	require.Contains(t, d.LogText(), "stopped with 1 partitions that are not consumed to their end")
	line := d.FindLog("stopping with partitions")
	require.Equal(t, 1.0, line["partitions"])
	require.Equal(t, 1.0, line["not_consumed"])
	require.Contains(t, line["error"], "--drain-timeout of 10ms has passed")
	require.NoError(t, p.Close())
}

func TestDrainThatLeavesOnlyWhatWasReadSucceeds(t *testing.T) {
	d := start(t, "--drain-timeout", "10ms", "--isolation", "strict") // holds what somebody maps
	c := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	gate := oneInput(t, c, id)
	write(t, p, "read")
	for rec, err := range reader.Records(testContext(t), gate, shuffle.Strings{}) {
		require.NoError(t, err)
		require.Equal(t, "read", rec)
	}
	require.NoError(t, gate.Close())
	eventually(t, "the partition is consumed", func() bool {
		return d.Metrics()[`shuffled_partitions{state="consumed",type="PIPELINED_BOUNDED"}`] == 1
	})
	d.Signal(unix.SIGTERM) // the producer still has its memory
	require.Zero(t, d.Wait(), d.LogText())
	require.Equal(t, 0.0, d.FindLog("stopping with partitions")["not_consumed"])
	require.NoError(t, p.Close())
}

func TestSecondSignalStopsAtOnce(t *testing.T) {
	d := start(t, "--drain-timeout", "24h")
	c := dial(t, d)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	require.NoError(t, err)
	d.Signal(unix.SIGTERM)
	d.WaitForLog("draining")
	d.Signal(unix.SIGINT)
	require.Equal(t, exitDropped, d.Wait())
	require.Contains(t, d.FindLog("stopping with partitions")["error"], "second signal")
	eventually(t, "the client hears of the end", func() bool {
		_, err := c.List(testContext(t))
		return errors.Is(err, shuffle.ErrDaemonLost)
	})
	require.NoError(t, p.Close())
}

func TestKilledDaemonIsReplacedOnTheSameSocket(t *testing.T) {
	first := start(t)
	c := dial(t, first)
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Subpartitions: 1})
	require.NoError(t, err)
	first.Signal(unix.SIGKILL)
	require.Equal(t, -1, first.Wait())
	require.FileExists(t, first.Socket)
	eventually(t, "the client hears of the end", func() bool {
		_, err := c.List(testContext(t))
		return errors.Is(err, shuffle.ErrDaemonLost)
	})
	require.NoError(t, p.Close())

	second := daemontest.Start(t, daemontest.Options{Env: []string{asProgram}, Socket: first.Socket})
	again := dial(t, second)
	require.NotEqual(t, c.Daemon().BootID, again.Daemon().BootID)
	list, err := again.List(testContext(t))
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestSecondDaemonIsTurnedAwayWithThePidOfTheFirst(t *testing.T) {
	first := start(t)
	second := launch(t, first.Socket)
	require.Equal(t, exitError, second.Wait())
	require.Contains(t, second.LogText(),
		"another shuffled is running with this socket (pid "+strconv.Itoa(first.PID())+")")
	c := dial(t, first)
	_, err := c.List(testContext(t))
	require.NoError(t, err)
}

func TestOfManyDaemonsStartedAtOnceOneServes(t *testing.T) {
	socket := daemontest.SocketPath(t)
	for range 5 { // each time on what those that were killed have left
		var daemons []*daemontest.Daemon
		for range 8 {
			daemons = append(daemons, launch(t, socket))
		}
		running := func() (n int) {
			for _, d := range daemons {
				if d.Running() {
					n++
				}
			}
			return n
		}
		eventually(t, "all but one end", func() bool { return running() == 1 })
		for _, d := range daemons {
			if d.Running() {
				d.WaitForLog("shuffled is ready")
				dial(t, d)
				d.Kill()
				continue
			}
			require.Equal(t, exitError, d.Wait())
			require.Contains(t, d.LogText(), "another shuffled is running")
		}
	}
}

func TestBusyMetricsPortIsAnErrorThatSaysWhatToDo(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer listener.Close()
	socket := daemontest.SocketPath(t)
	d := launch(t, socket, "--metrics-address", listener.Addr().String())
	require.Equal(t, exitError, d.Wait())
	require.Contains(t, d.LogText(), "address already in use")
	require.Contains(t, d.LogText(), "Choose another --metrics-address")
	require.NoFileExists(t, socket, "what was opened before is removed")
	require.NoFileExists(t, socket+".lock")
}

func TestMetricsCanBeOff(t *testing.T) {
	d := start(t, "--metrics-address", "")
	require.NotContains(t, d.FindLog("shuffled starts"), "metrics_address")
	require.Empty(t, d.URL)
	dial(t, d)
}

func TestMetricsOpenToOtherHostsAreWarnedOf(t *testing.T) {
	d := start(t, "--metrics-address", "0.0.0.0:0")
	require.NotNil(t, d.FindLog("metrics can be read from other hosts"))
}

func TestLogLevelHidesLesserLines(t *testing.T) {
	socket := daemontest.SocketPath(t)
	d := launch(t, socket, "--log-level", "error")
	eventually(t, "it listens", func() bool {
		c, err := client.Dial(testContext(t), client.WithSocket(socket))
		return err == nil && c.Close() == nil
	})
	d.Signal(unix.SIGTERM)
	require.Zero(t, d.Wait())
	require.Empty(t, d.LogText())
}

func TestProfilesAreServed(t *testing.T) {
	d := start(t)
	status, body := d.Get("/debug/pprof/goroutine?debug=1")
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, body, "goroutine profile: total")
	status, _ = d.Get("/nothing")
	require.Equal(t, http.StatusNotFound, status)
}

func TestProfilesAreOffUnlessAskedFor(t *testing.T) {
	require.False(t, newServeOptions().pprof)
	d := start(t, "--pprof=false")
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline",
		"/debug/pprof/profile?seconds=1"} {
		status, _ := d.Get(path)
		require.Equal(t, http.StatusNotFound, status, path)
	}
}

func TestDaemonOutlivesTheReaderOfItsLog(t *testing.T) {
	socket := daemontest.SocketPath(t)
	self, err := os.Executable()
	require.NoError(t, err)
	log, stderr, err := os.Pipe()
	require.NoError(t, err)
	command := exec.Command(self, "serve", "--socket", socket, "--metrics-address", "", "--memory", "64MiB")
	command.Env, command.Stderr = daemontest.Environ(asProgram), stderr
	require.NoError(t, command.Start())
	require.NoError(t, stderr.Close())
	require.NoError(t, log.Close())
	eventually(t, "it listens", func() bool {
		c, err := client.Dial(testContext(t), client.WithSocket(socket))
		return err == nil && c.Close() == nil
	})
	require.ErrorIs(t, sendGarbage(t, socket), io.EOF) // is logged
	c, err := client.Dial(testContext(t), client.WithSocket(socket))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.NoError(t, command.Process.Signal(unix.SIGTERM))
	require.NoError(t, command.Wait())
}
