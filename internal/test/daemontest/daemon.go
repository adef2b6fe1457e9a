// Package daemontest runs shuffled as a process of its own, for tests that look
// at it from outside: its exit code and log, its metrics, and what it holds of
// the system.
package daemontest

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Patience is how long something may take that must happen. It detects hangs; no
// test waits for it to pass.
const Patience = time.Minute

// Options say how to start a daemon.
type Options struct {
	// Program is the binary, this test's own by default.
	Program string
	// Env is added to an environment that has no variables of shuffled.
	Env []string
	// Through is a command that ends by executing its further arguments, to start the
	// daemon by; none by default.
	Through []string
	// Socket is where it listens; in a new directory by default.
	Socket string
	// Args follow what the test needs: socket, a free metrics port, a log in JSON,
	// profiles for reports of a hang, 64 MiB of memory.
	Args []string
}

// A Daemon is a process. Its methods may be called from any number of
// goroutines.
type Daemon struct {
	Socket string
	// URL is where it answers HTTP, without a slash at its end.
	URL string

	t       testing.TB
	command *exec.Cmd
	ended   chan struct{} // closed when the process was waited for

	mu      sync.Mutex
	log     []LogLine
	changed chan struct{} // closed and replaced with each line
}

// A LogLine is a line of the daemon's log in JSON, or one that is none as its
// "msg".
type LogLine map[string]any

// SocketPath returns a path for a socket in a new directory. The directories of
// testing.T hold the name of the test and can be too long.
func SocketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "shuffled-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	return filepath.Join(dir, "s.sock")
}

// Environ returns the environment of this process without what a daemon would
// take for its own, and with more.
func Environ(more ...string) []string {
	var environ []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, "SHUFFLED_") {
			environ = append(environ, entry)
		}
	}
	environ = append(environ, "GORACE=atexit_sleep_ms=0") // the race detector has every process wait a second
	return append(environ, more...)
}

func (o *Options) command(t testing.TB) *exec.Cmd {
	t.Helper()
	if o.Program == "" {
		self, err := os.Executable()
		require.NoError(t, err)
		o.Program = self
	}
	if o.Socket == "" {
		o.Socket = SocketPath(t)
	}
	args := []string{"serve", "--socket", o.Socket, "--metrics-address", "127.0.0.1:0", "--pprof", "--log-format",
		"json", "--memory", "64MiB"}
	args = slices.Concat(o.Through, []string{o.Program}, args, o.Args)
	command := exec.Command(args[0], args[1:]...)
	command.Env = Environ(o.Env...)
	command.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL}
	return command
}

// Start starts a daemon and waits until it is ready. The end of the test kills
// it if it still runs.
func Start(t testing.TB, o Options) *Daemon {
	t.Helper()
	d := Launch(t, o)
	d.WaitForLog("shuffled is ready")
	d.findURL()
	return d
}

// TryStart is Start of a daemon that may refuse to: then it returns false once that
// has ended.
func TryStart(t testing.TB, o Options) (*Daemon, bool) {
	t.Helper()
	d := Launch(t, o)
	for {
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		if d.FindLog("shuffled is ready") != nil {
			d.findURL()
			return d, true
		}
		select {
		case <-changed:
		case <-d.ended:
			return d, false
		case <-time.After(Patience):
			require.Failf(t, "the daemon hangs", "while it starts\n%s", d.LogText())
		}
	}
}

func (d *Daemon) findURL() {
	if address, ok := d.WaitForLog("shuffled starts")["metrics_address"].(string); ok {
		d.URL = "http://" + address
	}
}

// Launch starts a daemon and does not wait.
func Launch(t testing.TB, o Options) *Daemon {
	t.Helper()
	command := o.command(t)
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	d := &Daemon{Socket: o.Socket, t: t, command: command, ended: make(chan struct{}), changed: make(chan struct{})}
	require.NoError(t, command.Start())
	go func() {
		defer close(d.ended)
		lines := bufio.NewScanner(stderr)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			d.addLine(lines.Bytes())
		}
		_ = command.Wait() // the state says how
	}()
	t.Cleanup(func() {
		d.Kill()
		if t.Failed() {
			t.Logf("log of the daemon %d:\n%s", d.PID(), d.LogText())
		}
	})
	return d
}

func (d *Daemon) addLine(text []byte) {
	line := LogLine{}
	if json.Unmarshal(text, &line) != nil {
		line = LogLine{"msg": string(text)}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, line)
	close(d.changed)
	d.changed = make(chan struct{})
}

// FindLog returns the first line with that message, or nil.
func (d *Daemon) FindLog(msg string) LogLine {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, line := range d.log {
		if line["msg"] == msg {
			return line
		}
	}
	return nil
}

// WaitForLog waits for a line with that message.
func (d *Daemon) WaitForLog(msg string) LogLine {
	d.t.Helper()
	deadline := time.After(Patience)
	for {
		d.mu.Lock()
		changed := d.changed
		d.mu.Unlock()
		if line := d.FindLog(msg); line != nil {
			return line
		}
		select {
		case <-changed:
		case <-d.ended:
			if line := d.FindLog(msg); line != nil {
				return line
			}
			require.Failf(d.t, "the daemon ended", "without the message %q: %s\n%s", msg, d.command.ProcessState,
				d.LogText())
		case <-deadline:
			require.Failf(d.t, "the daemon hangs", "no message %q\n%s", msg, d.LogText())
		}
	}
}

// LogText returns the log, a line of fields each.
func (d *Daemon) LogText() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var text strings.Builder
	for _, line := range d.log {
		fmt.Fprintln(&text, map[string]any(line))
	}
	return text.String()
}

// PID returns the process id.
func (d *Daemon) PID() int { return d.command.Process.Pid }

// Signal sends a signal.
func (d *Daemon) Signal(s unix.Signal) {
	d.t.Helper()
	require.NoError(d.t, d.command.Process.Signal(s))
}

// Stop stops a process, until SIGCONT, and waits until every thread of it has: the
// signal is on its way when it is sent.
func Stop(t testing.TB, pid int) {
	t.Helper()
	require.NoError(t, unix.Kill(pid, unix.SIGSTOP))
	require.Eventually(t, func() bool { return isStopped(t, pid) }, Patience, time.Millisecond)
}

func isStopped(t testing.TB, pid int) bool {
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	require.NoError(t, err)
	require.NotEmpty(t, threads)
	for _, thread := range threads {
		stat, err := os.ReadFile(thread)
		if err != nil || !strings.Contains(string(stat), ") T ") {
			return false
		}
	}
	return true
}

// Wait waits for the end of the process and returns its exit code, -1 for one
// that a signal ended.
func (d *Daemon) Wait() int {
	d.t.Helper()
	select {
	case <-d.ended:
	case <-time.After(Patience):
		require.Fail(d.t, "the daemon does not end", d.Goroutines())
	}
	return d.command.ProcessState.ExitCode()
}

// Running reports whether the process has not ended.
func (d *Daemon) Running() bool {
	select {
	case <-d.ended:
		return false
	default:
		return true
	}
}

// Kill ends the process with SIGKILL, if it has not ended, and waits for it.
func (d *Daemon) Kill() {
	_ = d.command.Process.Kill() // it may have ended
	<-d.ended
}

// Get fetches a path over HTTP.
func (d *Daemon) Get(path string) (status int, body string) {
	d.t.Helper()
	status, body, err := d.get(path)
	require.NoError(d.t, err)
	return status, body
}

func (d *Daemon) get(path string) (status int, body string, err error) {
	client := http.Client{Timeout: Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	answer, err := client.Get(d.URL + path)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(text), err
}

// Goroutines returns the stacks of the daemon, for reports of a hang.
func (d *Daemon) Goroutines() string {
	_, body, err := d.get("/debug/pprof/goroutine?debug=2")
	if err != nil {
		return err.Error()
	}
	return body
}

// Metrics scrapes the daemon. Keys are written as in the text format, with the
// labels in their order there: `shuffled_segments{state="free"}`.
func (d *Daemon) Metrics() map[string]float64 {
	d.t.Helper()
	status, body := d.Get("/metrics")
	require.Equal(d.t, http.StatusOK, status)
	metrics := make(map[string]float64)
	for line := range strings.Lines(body) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		end := strings.LastIndexByte(line, ' ')
		value, err := strconv.ParseFloat(line[end+1:], 64)
		require.NoError(d.t, err, line)
		metrics[line[:end]] = value
	}
	return metrics
}

// Descriptors counts the open descriptors of the process.
func (d *Daemon) Descriptors() int {
	d.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", d.PID()))
	require.NoError(d.t, err)
	return len(entries)
}

// SharedMappings counts the mappings of shared objects in the process.
func (d *Daemon) SharedMappings() int {
	d.t.Helper()
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", d.PID()))
	require.NoError(d.t, err)
	return strings.Count(string(maps), "/memfd:")
}

// A Result is how a program ended.
type Result struct {
	Code           int
	Stdout, Stderr string
}

// Execute runs this test's own binary to its end, with an environment that has
// no variables of shuffled beside env.
func Execute(t testing.TB, env []string, args ...string) Result {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	var stdout, stderr strings.Builder
	command := exec.Command(self, args...)
	command.Env = Environ(env...)
	command.Stdout, command.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := command.Run(); err != nil {
		require.ErrorAs(t, err, &exit)
	}
	return Result{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}
