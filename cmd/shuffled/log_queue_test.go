package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/test/daemontest"
	"shuffled/reader"
	"shuffled/shuffle"
)

// smallPipe returns a pipe that holds a page.
func smallPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	_, err = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() }) // the test may have closed them
	return r, w
}

func TestLogQueueDropsAndCountsWhatNobodyReads(t *testing.T) {
	r, w := smallPipe(t)
	queue := newLogQueue(w)
	log := newLogger(queue, "json", "info")
	const lines = 20_000
	for i := range lines {
		log.Info(strings.Repeat("x", 100), "i", i)
	}
	dropped := queue.droppedLines()
	require.Positive(t, dropped)
	require.Less(t, dropped, uint64(lines))

	go queue.close()
	decoder := json.NewDecoder(bufio.NewReader(r))
	last := -1
	for range lines - int(dropped) {
		var line struct{ I int }
		require.NoError(t, decoder.Decode(&line))
		// Not the next in any case: where a line found no room, a shorter one may.
		require.Greater(t, line.I, last, "what was taken is written in order")
		last = line.I
	}
	var notice struct {
		Level, Msg string
		Lines      uint64
	}
	require.NoError(t, decoder.Decode(&notice))
	require.Equal(t, "WARN", notice.Level)
	require.Equal(t, "log lines were dropped, nobody read them in time", notice.Msg)
	require.Equal(t, dropped, notice.Lines)
	<-queue.ended
	require.Equal(t, dropped, queue.droppedLines())
}

func TestLogQueueEndsThoughNobodyReads(t *testing.T) {
	r, w := smallPipe(t)
	queue := newLogQueue(w)
	line := bytes.Repeat([]byte("x"), 8192)
	n, err := queue.Write(line)
	require.NoError(t, err)
	require.Len(t, line, n)
	queue.close()
	select {
	case <-queue.ended:
		require.Fail(t, "the line was written")
	default:
	}
	_, err = queue.Write(line)
	require.NoError(t, err)
	require.Equal(t, uint64(1), queue.droppedLines(), "after its end nothing is taken")
	require.NoError(t, r.Close())
	<-queue.ended
	require.Equal(t, uint64(2), queue.droppedLines(), "nor was the first line written")
}

func TestLogQueueCountsWhatCannotBeWritten(t *testing.T) {
	_, w := smallPipe(t)
	require.NoError(t, w.Close())
	queue := newLogQueue(w)
	log := newLogger(queue, "text", "info")
	for range 3 {
		log.Info("lost")
	}
	queue.close()
	<-queue.ended
	require.Equal(t, uint64(3), queue.droppedLines())
}

// A failingOnce refuses the first writes.
type failingOnce struct {
	bytes.Buffer
	failures int
}

func (f *failingOnce) Write(b []byte) (int, error) {
	if f.failures > 0 {
		f.failures--
		return 0, unix.EIO
	}
	return f.Buffer.Write(b)
}

func TestLogQueueTellsOfDroppedLinesOnceItCanWriteAgain(t *testing.T) {
	out := &failingOnce{failures: 2}
	queue := newLogQueue(out)
	log := newLogger(queue, "text", "info")
	for i := range 3 {
		log.Info("line", "i", i)
	}
	queue.close()
	<-queue.ended
	require.Equal(t, uint64(2), queue.droppedLines())
	require.Contains(t, out.String(), "i=2\n")
	require.Contains(t, out.String(), "lines=2\n")
	require.NotContains(t, out.String(), "i=1")
}

func TestLogQueueWritesTheRestOfALineToAPipeThatIsNonBlocking(t *testing.T) {
	r, w := smallPipe(t)
	// By number, so that the runtime does not wait for it.
	fd := int(w.Fd())
	require.NoError(t, unix.SetNonblock(fd, true))
	queue := newLogQueue(fdWriter(fd))
	line := bytes.Repeat([]byte("x"), 10_000)
	line[len(line)-1] = '\n'
	_, err := queue.Write(line)
	require.NoError(t, err)
	got, err := bufio.NewReaderSize(r, len(line)).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, string(line), got)
	queue.close()
	<-queue.ended
	require.Zero(t, queue.droppedLines())
}

type fdWriter int

func (fd fdWriter) Write(b []byte) (int, error) { return unix.Write(int(fd), b) }

func TestErrorsOnlyLogTellsOfNoDroppedLines(t *testing.T) {
	out := &failingOnce{failures: 1}
	queue := newLogQueue(out)
	log := newLogger(queue, "text", "error")
	log.Error("lost")
	log.Error("kept")
	queue.close()
	<-queue.ended
	require.Equal(t, 1, strings.Count(out.String(), "\n"))
}

// startMute starts a daemon whose standard error is stderr, and waits until it
// listens.
func startMute(t *testing.T, stderr *os.File, args ...string) (*exec.Cmd, string) {
	t.Helper()
	socket := daemontest.SocketPath(t)
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self, append([]string{"serve", "--socket", socket, "--metrics-address", "", "--memory",
		"64MiB"}, args...)...)
	command.Env, command.Stderr = daemontest.Environ(asProgram), stderr
	command.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	require.NoError(t, command.Start())
	t.Cleanup(func() { _, _ = command.Process.Kill(), command.Wait() }) // the test may have
	eventually(t, "it listens", func() bool {
		c, err := client.Dial(testContext(t), client.WithSocket(socket))
		return err == nil && c.Close() == nil
	})
	return command, socket
}

func TestDaemonWorksAndStopsThoughNobodyReadsItsLog(t *testing.T) {
	_, w := smallPipe(t)
	command, socket := startMute(t, w, "--log-level", "debug")
	descriptors := func() int {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", command.Process.Pid))
		require.NoError(t, err)
		return len(entries)
	}
	var before int
	eventually(t, "the clients that looked are gone", func() bool {
		n := descriptors()
		same := n == before
		before = n
		return same
	})
	for range 100 { // more than a pipe of a page holds lines of
		require.Error(t, sendGarbage(t, socket))
	}
	eventually(t, "their descriptors are given back", func() bool { return descriptors() <= before })

	// A client that goes is cleaned up after, whatever is logged of it.
	ctx := testContext(t)
	producer, err := client.Dial(ctx, client.WithSocket(socket))
	require.NoError(t, err)
	consumer, err := client.Dial(ctx, client.WithSocket(socket))
	require.NoError(t, err)
	id := shuffle.NewPartitionID()
	p, err := producer.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	gate := oneInput(t, consumer, id)
	require.NoError(t, producer.Close())
	require.NoError(t, p.Close(), "its mappings are not the client's to close")
	for _, err = range reader.Records(context.Background(), gate, shuffle.Strings{}) {
		break
	}
	require.ErrorIs(t, err, shuffle.ErrProducerLost)
	require.NoError(t, gate.Close())
	require.NoError(t, consumer.Close())

	require.NoError(t, command.Process.Signal(unix.SIGTERM))
	require.NoError(t, command.Wait())
	require.NoFileExists(t, socket)
	require.NoFileExists(t, socket+".lock")
}

func TestDaemonThatCannotStartEndsThoughNobodyReadsItsLog(t *testing.T) {
	_, w := smallPipe(t)
	_, socket := startMute(t, w)
	fd := int(w.Fd())
	require.NoError(t, unix.SetNonblock(fd, true))
	var full error
	for full == nil {
		_, full = unix.Write(fd, []byte("x"))
	}
	require.ErrorIs(t, full, unix.EAGAIN)
	require.NoError(t, unix.SetNonblock(fd, false))
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.Command(self, "serve", "--socket", socket, "--metrics-address", "", "--memory", "64MiB")
	command.Env, command.Stderr = daemontest.Environ(asProgram), w
	var exit *exec.ExitError
	require.ErrorAs(t, command.Run(), &exit)
	require.Equal(t, exitError, exit.ExitCode())
}
