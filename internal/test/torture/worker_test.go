package torture

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/client"
)

// A worker is a process that carries out a plan. Its methods may be called from
// any number of goroutines.
type worker struct {
	name    string
	plan    workerPlan
	command *exec.Cmd
	stderr  bytes.Buffer
	ended   chan struct{} // closed when it was waited for and its events are read

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced with each event
	seen      map[string]bool
	committed uint64
	last      *event // done
	killed    bool
}

// startWorker starts a process for a plan.
func startWorker(t *testing.T, name, socket string, plan workerPlan) *worker {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	return startWorkerAs(t, name, socket, workerOptions{program: self}, plan)
}

// workerOptions say how a worker runs; program alone is required.
type workerOptions struct {
	program    string
	dir        string // where it may leave a core
	credential *syscall.Credential
	nice       bool // others go first
}

func startWorkerAs(t *testing.T, name, socket string, o workerOptions, plan workerPlan) *worker {
	t.Helper()
	text, err := json.Marshal(plan)
	require.NoError(t, err)
	w := &worker{name: name, plan: plan, ended: make(chan struct{}), changed: make(chan struct{}),
		seen: make(map[string]bool)}
	w.command = exec.Command(o.program)
	if o.nice {
		w.command = exec.Command("nice", "-n", "19", o.program)
	}
	w.command.Dir = o.dir
	w.command.Env = append(os.Environ(), workerVariable+"="+string(text), client.SocketVariable+"="+socket,
		"GOTRACEBACK=all",
		"GORACE=atexit_sleep_ms=0") // the race detector has every process wait a second
	w.command.Stderr = &w.stderr
	w.command.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGKILL, Credential: o.credential}
	stdout, err := w.command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, w.command.Start())
	go func() {
		defer close(w.ended)
		events := json.NewDecoder(stdout)
		for {
			var e event
			if events.Decode(&e) != nil { // the end, or half an event of one that was killed
				break
			}
			w.saw(e)
		}
		_ = w.command.Wait() // the state says how
	}()
	t.Cleanup(func() { w.signal(unix.SIGKILL); <-w.ended })
	return w
}

func (w *worker) saw(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen[e.Kind] = true
	switch e.Kind {
	case committed:
		w.committed = e.Records
	case done:
		w.last = &e
	}
	close(w.changed)
	w.changed = make(chan struct{})
}

// waitFor waits for an event of that kind or for the end of the process, or
// until stop is closed.
func (w *worker) waitFor(kind string, stop <-chan struct{}) {
	for {
		w.mu.Lock()
		seen, changed := w.seen[kind], w.changed
		w.mu.Unlock()
		if seen {
			return
		}
		select {
		case <-changed:
		case <-w.ended:
			return
		case <-stop:
			return
		}
	}
}

// has reports whether an event of that kind was seen.
func (w *worker) has(kind string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.seen[kind]
}

// committedRecords returns how many records are known to be committed for each
// subpartition.
func (w *worker) committedRecords() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.committed
}

func (w *worker) running() bool {
	select {
	case <-w.ended:
		return false
	default:
		return true
	}
}

func (w *worker) pid() int { return w.command.Process.Pid }

// signal sends a signal to the process, if it has not ended.
func (w *worker) signal(s unix.Signal) {
	if s == unix.SIGKILL {
		w.mu.Lock()
		w.killed = true
		w.mu.Unlock()
	}
	_ = w.command.Process.Signal(s)
}

// wasKilled reports whether the process has ended by SIGKILL, not before it.
func (w *worker) wasKilled() bool {
	<-w.ended
	status, ok := w.command.ProcessState.Sys().(interface{ Signaled() bool })
	return ok && status.Signaled()
}

// report returns what is known of the worker, for failures.
func (w *worker) report() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	text := fmt.Sprintf("%s (pid %d, running %v, killed %v, committed %d): ", w.name, w.pid(), w.running(), w.killed,
		w.committed)
	if w.last != nil {
		encoded, _ := json.Marshal(w.last)
		text += string(encoded)
	}
	if !w.running() {
		text += w.command.ProcessState.String() + "\n" + w.stderr.String()
	}
	return text
}
