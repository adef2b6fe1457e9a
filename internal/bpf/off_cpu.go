package bpf

import (
	"fmt"
	"time"
)

// An OffCPUReason is why a thread left its core, told from the system call it was
// in.
type OffCPUReason uint8

// The reasons.
const (
	// OffFutexShared is a wait for a futex that processes share: the doorbells of
	// shuffled, futex_waitv included.
	OffFutexShared OffCPUReason = iota
	// OffFutexPrivate is a wait for a futex of the process alone. In a Go program
	// these are the runtime's idle and locked threads: time nobody waits for.
	OffFutexPrivate
	// OffEpoll is a wait for descriptors to become ready: epoll, poll, select. In a
	// Go program this is the netpoller.
	OffEpoll
	// OffSocket is a blocking call on a socket.
	OffSocket
	// OffPipe is a blocking call on a pipe.
	OffPipe
	// OffNanosleep is a sleep for a time, which the Go runtime's monitor thread
	// spends its life in.
	OffNanosleep
	// OffPageFault is a wait for a page.
	OffPageFault
	// OffYield is a core given up by sched_yield.
	OffYield
	// OffPreempted is a core taken away from a thread that could have gone on.
	OffPreempted
	// OffOther is everything else: files, child processes, signals, and calls that
	// the thread was already in when its process was first watched.
	OffOther

	// OffCPUReasons is the number of reasons.
	OffCPUReasons = iota
)

var offCPUNames = [OffCPUReasons]string{
	"futex (shared)", "futex (private)", "epoll", "socket", "pipe", "nanosleep", "page fault", "yield", "preempted",
	"other",
}

// String returns the reason in lower case.
func (r OffCPUReason) String() string {
	if int(r) < len(offCPUNames) {
		return offCPUNames[r]
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// OffCPU is time that threads spent off their cores for one reason.
type OffCPU struct {
	// Stays counts how often a thread was away and came back.
	Stays uint64
	// Time is the sum over all threads of those stays, from the switch out to the
	// switch in. It may exceed the time that has passed, and a stay counts when it
	// ends.
	Time time.Duration
}
