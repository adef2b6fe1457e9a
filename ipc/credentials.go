package ipc

import (
	"errors"
	"fmt"
	"math"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"shuffled/shuffle"
)

// Credentials say who a peer is, by the word of the kernel (SO_PEERCRED).
type Credentials struct {
	// UID and GID are the effective ids that the peer had when it connected, or
	// when it began to listen, as this process's user namespace shows them.
	UID, GID uint32
	// PID is for display only: it may have been given to another process since,
	// and is 0 for a peer in a pid namespace that this process cannot see.
	PID int32
}

// String returns the credentials for logs and error messages.
func (c Credentials) String() string {
	return fmt.Sprintf("uid %d gid %d pid %d", c.UID, c.GID, c.PID)
}

// Peer returns the credentials of the process at the other end. They were fixed
// when the connection was made and do not follow the descriptor if the peer
// hands it on. For any number of goroutines; after Close it returns an error
// that wraps shuffle.ErrClosed.
func (c *Conn) Peer() (Credentials, error) {
	if err := c.Check(); err != nil {
		return Credentials{}, err
	}
	raw, err := c.socket.SyscallConn()
	if err != nil {
		return Credentials{}, fmt.Errorf("peer credentials: %w", err)
	}
	var (
		ucred   *unix.Ucred
		callErr error
	)
	err = raw.Control(func(fd uintptr) {
		ucred, callErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	switch {
	case errors.Is(err, net.ErrClosed):
		return Credentials{}, fmt.Errorf("peer credentials: connection %w", shuffle.ErrClosed)
	case err != nil:
		return Credentials{}, fmt.Errorf("peer credentials: %w", err)
	case callErr != nil:
		return Credentials{}, fmt.Errorf("peer credentials: %w", os.NewSyscallError("getsockopt SO_PEERCRED", callErr))
	case ucred.Uid == math.MaxUint32 || ucred.Gid == math.MaxUint32:
		return Credentials{}, fmt.Errorf("peer credentials: the kernel does not know the peer's ids: %w",
			shuffle.ErrPermission)
	}
	return Credentials{UID: ucred.Uid, GID: ucred.Gid, PID: ucred.Pid}, nil
}
