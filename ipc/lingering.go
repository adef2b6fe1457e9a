package ipc

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Lingering is a socket that is closed but for what its peer has not received.
// The kernel keeps that, and counts it as the daemon's, until the peer has closed
// its end or has read on.
type Lingering struct{ socket int }

// NothingLingers is what is left of a connection that was not used.
var NothingLingers = Lingering{socket: -1}

// Linger returns what is left of the connection when it is closed, which is to
// follow, possibly after a last message.
func (c *Conn) Linger() Lingering {
	l := NothingLingers
	if c.Check() != nil {
		return l
	}
	_ = c.raw.Control(func(fd uintptr) {
		if socket, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
			l.socket = socket
		}
	})
	return l
}

// Wait waits until the peer has closed or received everything, or until stop is
// closed. The Conn is closed.
func (l Lingering) Wait(stop <-chan struct{}) {
	if l.socket < 0 {
		return
	}
	defer unix.Close(l.socket)
	_ = unix.Shutdown(l.socket, unix.SHUT_RDWR) // the peer sees the end
	const shortest, longest = time.Millisecond, 500 * time.Millisecond
	for pause := shortest; unreceivedOf(l.socket) > 0; pause = min(2*pause, longest) {
		if !Sleep(pause, stop) {
			return
		}
	}
}
