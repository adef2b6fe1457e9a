package memseg

import (
	"errors"
	"os"
	"sync"
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

// checkFutex wakes nobody and does not sleep, since *w is not value: it only asks
// whether the kernel lets this process.
func checkFutex(w *Word32, value uint32) error {
	if _, _, errno := unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWakeOp, 1, 0, 0,
		0); errno != 0 {
		return os.NewSyscallError("futex FUTEX_WAKE", errno)
	}
	ts := unix.NsecToTimespec(1)
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWaitOp, uintptr(value),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	if errno != unix.EAGAIN {
		return os.NewSyscallError("futex FUTEX_WAIT", errno)
	}
	return nil
}

// futex_waitv sleeps on up to 128 words at once (Linux 5.16).
const (
	futexWaitvCall   = 449 // on every architecture
	futexWaitvSize32 = 2
	maxFutexWaitMany = 128
)

// futexWaits are the words of one call of futex_waitv.
type futexWaits struct {
	list []futexWaitv
}

// futexWaitv is struct futex_waitv of the kernel. The address is not seen by the
// garbage collector: whoever adds a word keeps it.
type futexWaitv struct {
	value    uint64
	address  uint64
	flags    uint32
	reserved uint32
}

func (f *futexWaits) reset() { f.list = f.list[:0] }

func (f *futexWaits) add(w *Word32, value uint32) {
	f.list = append(f.list, futexWaitv{value: uint64(value), address: uint64(uintptr(unsafe.Pointer(w))),
		flags: futexWaitvSize32})
}

// sleep returns when one of the words differs from its value or was woken, or
// without a reason. It returns the place of a word that was woken, or 0.
func (f *futexWaits) sleep() int {
	woken, _, errno := unix.Syscall6(futexWaitvCall, uintptr(unsafe.Pointer(&f.list[0])), uintptr(len(f.list)), 0, 0, 0,
		0)
	if errno != 0 || woken >= uintptr(len(f.list)) {
		return 0
	}
	return int(woken)
}

// SupportsFutexWaitMany reports whether goroutines beyond the first sixteen of a
// process can sleep in a few threads (futex_waitv, Linux 5.16). Without, one of them
// looks for all.
func SupportsFutexWaitMany() bool { return supportsFutexWaitMany() }

// supportsFutexWaitMany says once whether the kernel has futex_waitv: without
// words it is an invalid argument then.
var supportsFutexWaitMany = sync.OnceValue(func() bool {
	_, _, errno := unix.Syscall6(futexWaitvCall, 0, 0, 0, 0, 0, 0)
	return errno == unix.EINVAL
})
