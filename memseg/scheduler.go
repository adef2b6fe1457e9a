//go:build race || schedules

package memseg

import "sync/atomic"

// A Scheduler decides in which order the goroutines of a test access shared
// words and which of them sleep, so that a test can run this code in orders of
// its choice. It exists only in builds with the race detector or with the tag
// "schedules"; others have no trace of it.
type Scheduler interface {
	// Access is called before each access to a word.
	Access()
	// Sleep is called before FUTEX_WAIT, and true is taken for its return: at once
	// unless unchanged says that the word still has the value to wait for, and else
	// after Wake.
	Sleep(word *Word32, unchanged func() bool) bool
	// Wake is called before FUTEX_WAKE, and true is taken for its return.
	Wake(word *Word32) bool
}

var scheduler atomic.Pointer[Scheduler]

// SetScheduler has s decide from now on; nil leaves it to the kernel again.
func SetScheduler(s Scheduler) {
	if s == nil {
		scheduler.Store(nil)
		return
	}
	scheduler.Store(&s)
}

func accessPoint() {
	if s := scheduler.Load(); s != nil {
		(*s).Access()
	}
}

// scheduledSleep reports whether a scheduler did the work of futexWait.
func scheduledSleep(w *Word32, value uint32) bool {
	s := scheduler.Load()
	return s != nil && (*s).Sleep(w, func() bool { return w.v.Load() == value })
}

func scheduledWake(w *Word32) bool {
	s := scheduler.Load()
	return s != nil && (*s).Wake(w)
}

func isScheduled() bool { return scheduler.Load() != nil }
