package memseg

import (
	"errors"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// FUTEX_WAIT and FUTEX_WAKE without FUTEX_PRIVATE_FLAG, so that they meet across
// processes. Both work on read-only mappings.
const (
	futexWaitOp = 0
	futexWakeOp = 1
)

// futexWait sleeps while *w is value, until a wake, a signal or the timeout. The
// caller re-checks its condition in every case.
func futexWait(w *Word32, value uint32, timeout time.Duration) error {
	if scheduledSleep(w, value) {
		return nil
	}
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWaitOp,
		uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EINTR, unix.ETIMEDOUT:
		return nil
	}
	return errors.Join(errors.New("futex wait"), errno)
}

// futexWake wakes every sleeper of w. It cannot block.
func futexWake(w *Word32) {
	if scheduledWake(w) {
		return
	}
	const all = 1<<31 - 1
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWakeOp, all, 0, 0, 0)
}
