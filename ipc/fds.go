package ipc

import (
	"fmt"

	"golang.org/x/sys/unix"

	"shuffled/internal/opened"
	"shuffled/shuffle"
)

// ErrDescriptorsLost is the kind of error of a message whose descriptors did not
// fit this process. It wraps unix.EMFILE and shuffle.ErrQuotaExceeded.
var ErrDescriptorsLost error = descriptorsLost{}

type descriptorsLost struct{}

func (descriptorsLost) Error() string {
	return "this process may not open more files, close some or raise its RLIMIT_NOFILE (ulimit -n): " +
		unix.EMFILE.Error()
}

func (descriptorsLost) Unwrap() []error { return []error{unix.EMFILE, shuffle.ErrQuotaExceeded} }

// MaxFDs is the number of descriptors that the kernel takes with one packet
// (SCM_MAX_FD).
const MaxFDs = 253

// FDs are the file descriptors that came with a message, in the order in which
// they were sent. They belong to whoever received the message: each is taken
// over by Take or closed by Close. They are close-on-exec. Not for concurrent
// use.
type FDs []int

// Take hands descriptor i over to the caller, who closes it; Close skips it from
// now on. A descriptor that was taken already or closed, or is not there, is -1.
func (f FDs) Take(i int) int {
	if i < 0 || i >= len(f) {
		return -1
	}
	fd := f[i]
	f[i] = -1
	return fd
}

// Close closes what was not taken. It may be called any number of times, and on
// nil.
func (f FDs) Close() {
	for i := range f {
		if fd := f.Take(i); fd >= 0 {
			// Whatever close returns on Linux, the descriptor is gone.
			_ = unix.Close(fd)
		}
	}
}

// Expect checks that a message came with exactly n descriptors. Otherwise it
// closes them all and returns an error that names the message and wraps
// shuffle.ErrProtocol.
func (f FDs) Expect(n int, message string) error {
	if len(f) == n {
		return nil
	}
	f.Close()
	return fmt.Errorf("%s: got %d file descriptors, want %d: %w", message, len(f), n, shuffle.ErrProtocol)
}

// checkFDCount refuses more descriptors than a packet takes.
func checkFDCount(n int) error {
	if n > MaxFDs {
		return fmt.Errorf("got %d file descriptors, limit %d a message: %w", n, MaxFDs, shuffle.ErrInvalidArgument)
	}
	return nil
}

// parseRights returns all descriptors that the kernel has installed for a
// packet, also beside an error.
func parseRights(control []byte) (FDs, error) {
	if len(control) == 0 {
		return nil, nil
	}
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return nil, fmt.Errorf("control data of %d bytes: %w", len(control), err)
	}
	var fds FDs
	for i := range messages {
		header := messages[i].Header
		if header.Level != unix.SOL_SOCKET || header.Type != unix.SCM_RIGHTS {
			continue
		}
		rights, err := unix.ParseUnixRights(&messages[i])
		if err != nil {
			return fds, fmt.Errorf("descriptors of a packet: %w", err)
		}
		opened.Descriptors(rights...)
		fds = append(fds, rights...)
	}
	return fds, nil
}
