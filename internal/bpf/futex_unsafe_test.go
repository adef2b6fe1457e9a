package bpf

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"shuffled/memseg"
)

// Operations and flags of futexes.
const (
	futexWaitOp       = 0
	futexWakeOp       = 1
	futexRequeueOp    = 3
	futexWaitBitsetOp = 9
	futexRealtime     = 256

	futex2Size32  = 2
	futex2Private = 128
)

// callFutex calls futex without a timeout, w being the second futex too. It returns
// how many threads were woken.
func callFutex(w *memseg.Word32, op int, value uint32) (int, error) {
	n, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), uintptr(op), uintptr(value), 0,
		uintptr(unsafe.Pointer(w)), 1<<32-1)
	return int(n), errnoOf(errno)
}

// callFutexWaitv waits until one of words is woken or is not its value.
func callFutexWaitv(w *memseg.Word32, value uint32) error {
	waiter := struct {
		value, address  uint64
		flags, reserved uint32
	}{uint64(value), uint64(uintptr(unsafe.Pointer(w))), futex2Size32, 0}
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAITV, uintptr(unsafe.Pointer(&waiter)), 1, 0, 0, 0, 0)
	return errnoOf(errno)
}

// callFutexWait calls futex_wait (Linux 6.7).
func callFutexWait(w *memseg.Word32, value uint32, flags int) error {
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAIT, uintptr(unsafe.Pointer(w)), uintptr(value), 1<<32-1,
		uintptr(flags), 0, 0)
	return errnoOf(errno)
}

// callFutexWake calls futex_wake (Linux 6.7).
func callFutexWake(w *memseg.Word32, n int, flags int) (int, error) {
	woken, _, errno := unix.Syscall6(unix.SYS_FUTEX_WAKE, uintptr(unsafe.Pointer(w)), 1<<32-1, uintptr(n),
		uintptr(flags), 0, 0)
	return int(woken), errnoOf(errno)
}

func errnoOf(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
