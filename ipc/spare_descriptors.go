package ipc

import (
	"golang.org/x/sys/unix"
)

// spareDescriptors are open files of no use, whose numbers are there when a
// process has no others. They are the receiver's.
type spareDescriptors struct {
	keep bool
	fds  [2]int // each is 0 while it is not there
}

// KeepSpareDescriptors lets notifications of the daemon come through whole in a
// process that may not open more files: nobody could ask for them again. Answers
// are not given the spare ones, so that a call that cannot have its descriptors
// fails and leaves them alone. To be called before the first Receive; the spare
// ones are closed when Receive returns a final error.
func (c *Conn) KeepSpareDescriptors() {
	if c.Check() != nil {
		return
	}
	c.spare.keep = true
	c.spare.fill()
}

// fill opens what is missing, if it can.
func (s *spareDescriptors) fill() {
	for i := range s.fds {
		if s.fds[i] == 0 {
			if fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC); err == nil {
				s.fds[i] = fd
			}
		}
	}
}

// refill opens again what makeRoom has closed, if it can, before anybody hears of what
// was received.
func (s *spareDescriptors) refill() {
	if s.keep {
		s.fill()
	}
}

// close frees their numbers.
func (s *spareDescriptors) close() {
	for i, fd := range s.fds {
		if fd != 0 {
			_ = unix.Close(fd)
			s.fds[i] = 0
		}
	}
}

// makeRoom frees the numbers if the packet that is next on the socket may need them.
// Whether it does cannot be found out: others may open files, or lower the limit, in
// between.
func (s *spareDescriptors) makeRoom(fd int) {
	if !s.keep {
		return
	}
	var start [1]byte
	n, _, flags, _, err := unix.Recvmsg(fd, start[:], nil, unix.MSG_PEEK|unix.MSG_DONTWAIT)
	if err != nil || n == 0 {
		return
	}
	s.fill()
	// An answer starts with its request_id, which is field 1.
	const requestIDTag = 1 << 3
	if flags&unix.MSG_CTRUNC != 0 && start[0] != requestIDTag {
		s.close()
	}
}
