package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/daemon"
)

// daemonMemory is how much memory a daemon of our own may hand out.
const daemonMemory = 1 << 30

// daemonPatience is how long a daemon may take to start, and to stop.
const daemonPatience = 10 * time.Second

// A service is a shuffled to run an exchange through.
type service struct {
	socket string
	pid    int // 0 if it is not known
	// what says where it runs, for display.
	what string
	// stop ends a daemon of our own.
	stop func()
}

// A daemonSize is how many bytes a daemon of our own may have: for segments, and
// for queues and gates, where 0 is the daemon's default.
type daemonSize struct{ memory, control int64 }

// findDaemon returns the daemon at socket, or starts one if that is empty: the
// program shuffled from beside this one or from PATH, else a server within this
// process.
func findDaemon(ctx context.Context, socket string) (*service, error) {
	return findDaemonOfSize(ctx, socket, daemonSize{memory: daemonMemory})
}

// findDaemonOfSize is findDaemon with a size for a daemon that it starts.
func findDaemonOfSize(ctx context.Context, socket string, size daemonSize) (*service, error) {
	if socket != "" {
		return &service{socket: socket, pid: listenerPID(socket), what: "the one at " + socket, stop: func() {}}, nil
	}
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return nil, fmt.Errorf("start daemon: %w: give the socket of a running one with --socket", err)
	}
	removeDir := func() { _ = os.RemoveAll(dir) }
	d := &service{socket: filepath.Join(dir, "shuffled.sock")}
	program, err := daemonProgram()
	if err == nil {
		err = d.startProgram(ctx, program, size)
	} else {
		err = d.startServer(size)
	}
	if err != nil {
		removeDir()
		return nil, fmt.Errorf("start daemon: %w", err)
	}
	stop := d.stop
	d.stop = func() {
		stop()
		removeDir()
	}
	return d, nil
}

// segmentSize asks the daemon how many bytes a segment has.
func (d *service) segmentSize(ctx context.Context) (int, error) {
	c, err := client.Dial(ctx, client.WithSocket(d.socket), client.WithName("bench"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = c.Close() }()
	return c.Daemon().SegmentSize, nil
}

// listenerPID returns the process that listens at a socket, 0 if it cannot be
// known; who uses the socket finds out why.
func listenerPID(socket string) int {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	if unix.Connect(fd, &unix.SockaddrUnix{Name: socket}) != nil {
		return 0
	}
	peer, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return 0
	}
	return int(peer.Pid)
}

func daemonProgram() (string, error) {
	if self, err := os.Executable(); err == nil {
		if path, err := exec.LookPath(filepath.Join(filepath.Dir(self), "shuffled")); err == nil {
			return path, nil
		}
	}
	return exec.LookPath("shuffled")
}

func (d *service) startProgram(ctx context.Context, program string, size daemonSize) error {
	var log bytes.Buffer
	command := exec.Command(program, "serve", "--socket", d.socket, "--memory", fmt.Sprint(size.memory),
		"--max-control-memory", fmt.Sprint(size.control), "--metrics-address", "")
	command.Stderr = &log
	command.SysProcAttr = &unix.SysProcAttr{Pdeathsig: unix.SIGTERM, Setpgid: true} // Ctrl-C ends the workers first
	if err := command.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	d.pid = command.Process.Pid
	d.what = fmt.Sprintf("%s, process %d", program, command.Process.Pid)
	d.stop = func() {
		_ = command.Process.Signal(unix.SIGTERM)
		select {
		case <-ended:
		case <-time.After(daemonPatience):
			_ = command.Process.Kill()
			<-ended
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, daemonPatience, fmt.Errorf("%s did not listen within %v", program,
		daemonPatience))
	defer cancel()
	for {
		c, err := client.Dial(ctx, client.WithSocket(d.socket), client.WithName("bench"))
		if err == nil {
			return c.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("%s ended: %w: %s", program, errors.Join(err), lastLine(log.String()))
		case <-ctx.Done():
			d.stop()
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func lastLine(log string) string {
	lines := strings.Split(strings.TrimSpace(log), "\n")
	return lines[len(lines)-1]
}

func (d *service) startServer(size daemonSize) error {
	server, err := daemon.NewServer(daemon.Config{Memory: size.memory,
		Limits: daemon.Limits{ControlMemory: size.control}})
	if err != nil {
		return err
	}
	listener, err := net.Listen("unixpacket", d.socket)
	if err != nil {
		return errors.Join(err, server.Close())
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(ctx, listener) // workers report a daemon that is gone
	}()
	d.pid = os.Getpid()
	d.what = "a server within this process"
	d.stop = func() {
		cancel()
		<-served
		_ = server.Close()
	}
	return nil
}
