package memseg

import (
	"time"

	"golang.org/x/sys/unix"
)

// A Stopwatch adds up time in a shared word so that others see it grow while it
// runs. The word holds nanoseconds: the total while the watch stands, and while it
// runs stopwatchRuns and the reading of CLOCK_MONOTONIC, which is one for the whole
// host, at which a watch that never stood would have been started. So one load gives
// a total that never goes back.
//
// One goroutine starts and stops it; Total may be called from any goroutine, also
// when the region is unmapped.
type Stopwatch struct {
	word *Word
	copy Word // in the heap
}

// stopwatchRuns marks a word whose watch runs.
const stopwatchRuns = 1 << 63

// NewStopwatch returns a watch that stands at 0 and shows it in word.
func NewStopwatch(word *Word) *Stopwatch { return &Stopwatch{word: word} }

// Start lets the watch run. One that runs goes on.
func (w *Stopwatch) Start() {
	if total := w.copy.Load(); total&stopwatchRuns == 0 {
		w.show(stopwatchRuns | (monotonicNow() - total))
	}
}

// Stop lets the watch stand. One that stands goes on to.
func (w *Stopwatch) Stop() {
	if v := w.copy.Load(); v&stopwatchRuns != 0 {
		w.show(readStopwatch(v, monotonicNow()))
	}
}

func (w *Stopwatch) show(v uint64) {
	w.copy.Store(v)
	w.word.Store(v)
}

// Total returns the time that the watch has run until now.
func (w *Stopwatch) Total() time.Duration {
	return time.Duration(readStopwatch(w.copy.Load(), monotonicNow()))
}

// ReadStopwatch returns what a watch of another process shows, and whether it runs.
// A value that no watch can show counts as 0; limit bounds the others.
func ReadStopwatch(word *Word, limit time.Duration) (total time.Duration, running bool) {
	v := word.Load()
	return min(time.Duration(readStopwatch(v, monotonicNow())), max(limit, 0)), v&stopwatchRuns != 0
}

func readStopwatch(v, now uint64) uint64 {
	if v&stopwatchRuns == 0 {
		return believable(v)
	}
	started := v &^ stopwatchRuns
	if started > now {
		return 0
	}
	return now - started
}

// monotonicNow reads CLOCK_MONOTONIC through the runtime, which reads it without a
// system call.
func monotonicNow() uint64 { return uint64(monotonicStart.ns + int64(time.Since(monotonicStart.at))) }

// monotonicStart is one moment by the kernel's clock and by the runtime's.
var monotonicStart = func() (start struct {
	ns int64
	at time.Time
}) {
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // every kernel has that clock
	start.ns, start.at = now.Nano(), time.Now()
	return start
}()
