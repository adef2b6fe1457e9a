package bpf

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These make a call without telling the runtime that it blocks.

func blockingRead(from int) error {
	var b [8]byte
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(from), uintptr(unsafe.Pointer(&b)), 8)
	if errno != 0 || n != 8 {
		return fmt.Errorf("read %d bytes: %w", int(n), errnoOf(errno))
	}
	return nil
}

func blockingReceive(from int) error {
	var b [8]byte
	n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(from), uintptr(unsafe.Pointer(&b)), 8, 0, 0, 0)
	if errno != 0 || n != 8 {
		return fmt.Errorf("received %d bytes: %w", int(n), errnoOf(errno))
	}
	return nil
}

func blockingPoll(from int) error {
	p := unix.PollFd{Fd: int32(from), Events: unix.POLLIN}
	n, _, errno := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, 0, 0, 0, 0)
	if errno != 0 || n != 1 {
		return errors.Join(errors.New("poll"), errnoOf(errno))
	}
	return blockingRead(from)
}
