package bench

import (
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Span is the measured part of a worker's life: from its first record to its
// last. Times are those of the machine's monotonic clock, so that spans of
// different processes compare.
type Span struct {
	Start, End time.Duration
	// CPU is the processor time, user and system, that the process spent in it.
	CPU time.Duration
	// Mallocs is how many objects the process allocated on its heap in it.
	Mallocs uint64
}

// spans returns the time from the earliest start to the latest end, and the
// processor time of all.
func spans(all []Span) (wall, cpu time.Duration) {
	if len(all) == 0 {
		return 0, 0
	}
	start, end := all[0].Start, all[0].End
	for _, s := range all {
		start, end, cpu = min(start, s.Start), max(end, s.End), cpu+s.CPU
	}
	return end - start, cpu
}

// A spanTimer takes the span of a process. Its methods may be called from any
// goroutine.
type spanTimer struct {
	once    sync.Once
	start   time.Duration
	cpu     time.Duration
	mallocs uint64
}

// begin is called at the first record, by each goroutine that has one.
func (t *spanTimer) begin() {
	t.once.Do(func() { t.cpu, t.start, t.mallocs = processorTime(), monotonicNow(), mallocs() })
}

// end returns the span up to now. Without a begin it is empty.
func (t *spanTimer) end() Span {
	t.begin()
	return Span{Start: t.start, End: monotonicNow(), CPU: processorTime() - t.cpu, Mallocs: mallocs() - t.mallocs}
}

// mallocs counts the objects that this process has allocated.
func mallocs() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.Mallocs
}

func monotonicNow() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // it fails for unknown clocks alone
	return time.Duration(ts.Nano())
}

func processorTime() time.Duration {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage) // it fails for unknown arguments alone
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
