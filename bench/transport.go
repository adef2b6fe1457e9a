package bench

import (
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// A Transport is a way for records to travel between processes.
type Transport string

// The transports; see the package documentation.
const (
	Shm     Transport = "shm"
	Ceiling Transport = "ceiling"
	Unix    Transport = "unix"
	TCP     Transport = "tcp"
	Pipe    Transport = "pipe"
	GRPC    Transport = "grpc"

	// Futex and CacheLine are bare round trips, without records.
	Futex     Transport = "futex"
	CacheLine Transport = "cache-line"
)

// Transports lists those of throughput.
var Transports = []Transport{Shm, Ceiling, Unix, TCP, Pipe, GRPC}

// ParseTransports reads a comma-separated list.
func ParseTransports(list string) ([]Transport, error) {
	return parseNames("transport", list, Transports)
}

// check returns why a transport cannot carry such an exchange, or nil.
func (t Transport) check(size, producers, consumers int) error {
	switch {
	case t == Ceiling && (producers > 1 || consumers > 1):
		return errors.New("it has one producer and one consumer")
	case t == Ceiling && size > ringMaxRecord:
		return fmt.Errorf("its records have at most %d bytes", ringMaxRecord)
	}
	return nil
}

// connect returns the two ends of a stream, the second for reading.
func (t Transport) connect() (w, r *os.File, err error) {
	switch t {
	case Pipe:
		r, w, err = os.Pipe()
	case Unix, GRPC:
		w, r, err = connectUnix()
	case TCP:
		w, r, err = connectTCP()
	default:
		err = errors.New("it is not a stream")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect %s: %w", t, err)
	}
	return w, r, nil
}

func connectUnix() (w, r *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	return os.NewFile(uintptr(fds[0]), "unix"), os.NewFile(uintptr(fds[1]), "unix"), nil
}

func connectTCP() (w, r *os.File, err error) {
	listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return nil, nil, err
	}
	defer listener.Close()
	dialled, err := net.DialTCP("tcp", nil, listener.Addr().(*net.TCPAddr))
	if err != nil {
		return nil, nil, err
	}
	defer dialled.Close()
	accepted, err := listener.AcceptTCP()
	if err != nil {
		return nil, nil, err
	}
	defer accepted.Close()
	if w, err = dialled.File(); err != nil {
		return nil, nil, err
	}
	if r, err = accepted.File(); err != nil {
		return nil, nil, errors.Join(err, w.Close())
	}
	return w, r, nil
}

// firstFile is the first descriptor of a worker that belongs to its job.
const firstFile = 3

// openStreams returns the streams that a worker was started with, so that waiting
// for one does not hold a thread.
func openStreams(n int) ([]*os.File, error) {
	var files []*os.File
	for i := range n {
		if err := unix.SetNonblock(firstFile+i, true); err != nil {
			return nil, fmt.Errorf("open stream %d: %w", i, err)
		}
		files = append(files, os.NewFile(uintptr(firstFile+i), fmt.Sprintf("stream %d", i)))
	}
	return files, nil
}
