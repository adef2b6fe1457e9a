package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/internal/ctxerr"
	"shuffled/shuffle"
)

// dialRetry is the pause before a daemon whose backlog is full is tried again.
const dialRetry = 5 * time.Millisecond

// Dial connects to the daemon that listens at path. While the daemon has more
// connections waiting than it accepts, Dial waits too, as long as ctx lets it.
//
// A path that no socket can have gives an error that wraps
// shuffle.ErrInvalidArgument. The other errors say what to do and wrap the
// system's: fs.ErrNotExist where there is no socket, unix.ECONNREFUSED where
// nobody listens on it, shuffle.ErrPermission where this user may not connect.
func Dial(ctx context.Context, path string) (*Conn, error) {
	if ctx == nil {
		return nil, fmt.Errorf("dial shuffled without a context: %w", shuffle.ErrInvalidArgument)
	}
	if err := CheckSocketPath(path); err != nil {
		return nil, fmt.Errorf("dial shuffled: %w", err)
	}
	var dialer net.Dialer
	state := ""
	for {
		conn, err := dialer.DialContext(ctx, "unixpacket", path)
		if err == nil {
			socket := conn.(*net.UnixConn)
			c, err := NewConn(socket)
			if err != nil {
				_ = socket.Close()
				return nil, fmt.Errorf("dial shuffled at %s: %w", path, err)
			}
			return c, nil
		}
		if !errors.Is(err, unix.EAGAIN) {
			return nil, dialError(path, state, err)
		}
		state = "the daemon does not accept: "
		select {
		case <-time.After(dialRetry):
		case <-ctx.Done():
			return nil, dialError(path, state, ctxerr.Of(ctx))
		}
	}
}

// dialError says why a connection was not made and what to do. An end of the
// context is reported with the state in which it was met.
func dialError(path, state string, err error) error {
	var opError *net.OpError
	if errors.As(err, &opError) {
		err = opError.Err // the rest is a second path
	}
	var errno unix.Errno
	if !errors.As(err, &errno) {
		return fmt.Errorf("dial shuffled at %s: %s%w", path, state, err)
	}
	hint := ""
	switch errno {
	case unix.ENOENT:
		hint = "is the daemon running, and is this the path it listens on ($SHUFFLED_SOCKET)?"
	case unix.ECONNREFUSED:
		hint = "nobody listens on this file, is the daemon running? It replaces the file when it starts"
	case unix.EPROTOTYPE:
		hint = "this socket is not of type SOCK_SEQPACKET, so it belongs to another program"
	case unix.EACCES, unix.EPERM:
		return &permissionError{
			text: fmt.Sprintf("dial shuffled at %s: %v: uid %d needs write access to the socket and search access to its directories, is it in the daemon's group?",
				path, errno, os.Geteuid()),
			errno: errno,
		}
	default:
		return fmt.Errorf("dial shuffled at %s: %w", path, errno)
	}
	return fmt.Errorf("dial shuffled at %s: %w: %s", path, errno, hint)
}

// A permissionError is both shuffle.ErrPermission and the system's error, whose
// texts are the same.
type permissionError struct {
	text  string
	errno unix.Errno
}

func (e *permissionError) Error() string   { return e.text }
func (e *permissionError) Unwrap() []error { return []error{shuffle.ErrPermission, e.errno} }
