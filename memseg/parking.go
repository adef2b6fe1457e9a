package memseg

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// maxParkedThreads is how many goroutines of a process may sleep in a futex call
// at a time, each holding an OS thread.
const maxParkedThreads = 16

var threadTokens = make(chan struct{}, maxParkedThreads)

// Nap sleeps for about d, which is less than the runtime's timers can tell. It
// reports false at once if too many goroutines of the process hold a thread in sleep.
func Nap(d time.Duration) bool {
	if isScheduled() {
		return false // the order of a test is decided elsewhere
	}
	select {
	case threadTokens <- struct{}{}:
	default:
		return false
	}
	pause := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&pause, nil) // early is as good
	<-threadTokens
	return true
}

// A sharedSleeper sleeps for the owner of a doorbell without a thread of its own.
// Only the owner calls its methods.
type sharedSleeper struct {
	word  *Word32
	bits  []*Word       // of the doorbell: what is rung for
	value uint32        // the sleep is over when word differs from it
	woken chan struct{} // gets one element from whoever takes the sleeper off its list
	timer *time.Timer
	brisk bool // the last sleep was short

	// Guarded by the watcher.
	watched bool
	place   int // on the watcher's list

	// Guarded by the groups.
	group       *sleepGroup
	inGroup     bool
	listed      uint64 // generation of the group's list that has the word
	listedValue uint32 // with this value
}

func newSharedSleeper(w *Word32, bits []*Word) *sharedSleeper {
	timer := time.NewTimer(time.Hour)
	timer.Stop()
	return &sharedSleeper{word: w, bits: bits, woken: make(chan struct{}, 1), timer: timer}
}

// isRung reports whether somebody has rung: counted, or named a channel. Peers that
// share the doorbell might put back either.
func (s *sharedSleeper) isRung() bool { return s.word.Load() != s.value || anySet(s.bits) }

// briskTime is how long a sleep may last to be taken for one of many short ones.
const briskTime = 5 * time.Millisecond

// sleep returns when the word differs from value or a bit is set, when the timeout
// passes, or a little later, or without a reason. parked is the owner's word that
// tells peers to wake it.
//
// Who was woken soon the last time is watched for a moment: a peer that rings has no
// call to make, and thousands of short sleeps cost one goroutine's look at their
// words. Others join a group. Those that find no place there are watched as well.
func (s *sharedSleeper) sleep(value uint32, parked *Word32, timeout time.Duration) {
	start := time.Now()
	if s.brisk {
		s.brisk = briskWatcher.wait(s, value, min(timeout, briskTime))
		return // its owner looks again: the word was put back, if a peer did so
	}
	parked.Store(1)
	place, woken := sleepGroups.wait(s, value, timeout)
	parked.Store(0)
	if !place {
		woken = idleWatcher.wait(s, value, timeout)
	}
	s.brisk = woken && time.Since(start) < briskTime
}

// wait waits for a wake-up after the sleeper was put on a list. When the timeout
// passes it calls leave, which takes it off, or reports false when a wake-up is
// under way.
func (s *sharedSleeper) wait(timeout time.Duration, leave func() bool) (woken bool) {
	s.timer.Reset(max(timeout, 0))
	defer s.timer.Stop()
	select {
	case <-s.woken:
		return true
	case <-s.timer.C:
		if leave() {
			return false
		}
		<-s.woken
		return true
	}
}

// A watcher wakes sleepers that are rung, by looking at all of them. Its
// goroutine runs while there are any.
type watcher struct {
	// fast is the time between two looks after a change; it doubles while nothing
	// changes, up to slow.
	fast, slow time.Duration

	mu       sync.Mutex
	sleepers []*sharedSleeper
	running  bool
}

var (
	briskWatcher = watcher{fast: 100 * time.Microsecond, slow: 800 * time.Microsecond}
	idleWatcher  = watcher{fast: 200 * time.Microsecond, slow: 20 * time.Millisecond}
)

// wait sleeps until the sleeper is rung, which it reports, or the timeout passes.
func (w *watcher) wait(s *sharedSleeper, value uint32, timeout time.Duration) (woken bool) {
	w.mu.Lock()
	s.value, s.watched, s.place = value, true, len(w.sleepers)
	w.sleepers = append(w.sleepers, s)
	if !w.running {
		w.running = true
		go w.run()
	}
	w.mu.Unlock()
	return s.wait(timeout, func() bool { return w.leave(s) })
}

func (w *watcher) leave(s *sharedSleeper) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.watched {
		return false
	}
	w.remove(s)
	return true
}

func (w *watcher) remove(s *sharedSleeper) {
	s.watched = false
	last := len(w.sleepers) - 1
	moved := w.sleepers[last]
	w.sleepers[s.place], moved.place = moved, s.place
	w.sleepers[last] = nil
	w.sleepers = w.sleepers[:last]
}

// run looks at the words. It sleeps by a call of its own, since the runtime's
// timers are late by up to a millisecond, and for at least four times as long as a
// look takes: thousands of words are in as many pages.
func (w *watcher) run() {
	interval := w.fast
	for {
		pause := unix.NsecToTimespec(int64(interval))
		_ = unix.Nanosleep(&pause, nil) // early is as good
		start := time.Now()
		woken, left := w.look()
		if left == 0 {
			return
		}
		interval *= 2
		if woken > 0 {
			interval = w.fast
		}
		interval = min(max(interval, 4*time.Since(start)), w.slow)
	}
}

// look wakes sleepers and returns how many, and how many are left; without any,
// the watcher has stopped.
func (w *watcher) look() (woken, left int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := 0; i < len(w.sleepers); {
		s := w.sleepers[i]
		if !s.isRung() {
			i++
			continue
		}
		w.remove(s)
		s.woken <- struct{}{}
		woken++
	}
	w.running = len(w.sleepers) > 0
	return woken, len(w.sleepers)
}
