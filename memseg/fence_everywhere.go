package memseg

import (
	"runtime"
	"sync"

	"golang.org/x/sys/unix"
)

// The commands of membarrier(2) that are used.
const (
	membarrierPrivateExpedited         = 1 << 3
	membarrierRegisterPrivateExpedited = 1 << 4
)

var hasMembarrier = sync.OnceValue(func() bool { return membarrier(membarrierRegisterPrivateExpedited) })

func membarrier(command uintptr) bool {
	_, _, errno := unix.Syscall(unix.SYS_MEMBARRIER, command, 0, 0)
	return errno == 0
}

// fenceEverywhere is a full memory barrier in every thread of this process: each of
// them does it somewhere between two of its instructions, before the call returns. So
// one side of an exchange can do without barriers if the other one, which is rarely
// there, calls this: of what a thread stores and then loads, either the caller sees
// the store, or the thread loads what the caller stored before the call.
func fenceEverywhere() {
	if hasMembarrier() && membarrier(membarrierPrivateExpedited) {
		return
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m) // stops all goroutines and lets them go on
}
