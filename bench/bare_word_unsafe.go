package bench

import (
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A bareWord is a word of shared memory that one process stores and another one
// waits for.
type bareWord struct{ v atomic.Uint32 }

// bareWordAt returns the word at an offset, a multiple of 4 within a mapping.
func bareWordAt(mem []byte, offset int) *bareWord {
	return (*bareWord)(unsafe.Pointer(&mem[offset : offset+4][0]))
}

func (w *bareWord) load() uint32   { return w.v.Load() }
func (w *bareWord) store(v uint32) { w.v.Store(v) }

// Operations of futex between processes.
const (
	futexWait = 0
	futexWake = 1
)

// sleep returns when the word is not old or was woken, after the timeout, or
// without a reason.
func (w *bareWord) sleep(old uint32, timeout time.Duration) {
	ts := unix.NsecToTimespec(int64(timeout))
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWait, uintptr(old),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
}

// wake wakes the process that sleeps.
func (w *bareWord) wake() {
	_, _, _ = unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(w)), futexWake, 1, 0, 0, 0)
}
