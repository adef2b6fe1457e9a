package memseg

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Goroutines that sleep beyond maxParkedThreads share threads, in groups: one
// thread sleeps on the futex words of a whole group in one call. Sleepers beyond
// the groups, or on a kernel without that call (before Linux 5.16), are watched.
const (
	maxSleepGroups = 8
	sleepGroupSize = maxFutexWaitMany - 1 // one is the group's own word
)

// sleepGroups are the groups of this process.
var sleepGroups groupedSleepers

type groupedSleepers struct {
	mu     sync.Mutex // guards the groups and what is in them
	groups []*sleepGroup
}

// dozeTime is how long the thread of a group whose sleepers come and go waits until
// it looks at them again.
const dozeTime = 500 * time.Microsecond

// A sleepGroup has a goroutine while it has sleepers. To list a hundred words for
// the kernel takes it a tenth of a millisecond. So the goroutine is not disturbed
// by who leaves, nor by who comes back to the same sleep, and after a wake-up it
// dozes and looks by itself, until nothing has changed.
type sleepGroup struct {
	sleepers   []*sharedSleeper
	list       []*sharedSleeper // that its thread sleeps for, in the kernel's order
	changed    *Word32          // counts changes of sleepers, so that its thread looks again
	generation uint64           // counts lists
	dozing     bool             // it will look by itself
	ended      bool
}

// wait sleeps until the sleeper is rung or the timeout passes. Without a place in a
// group, it reports so at once.
func (gs *groupedSleepers) wait(s *sharedSleeper, value uint32, timeout time.Duration) (place, woken bool) {
	if !supportsFutexWaitMany() {
		return false, false
	}
	// Who rings from here on makes the call that wakes the thread.
	if s.value = value; s.isRung() {
		return true, true
	}
	if !gs.join(s, value) {
		return false, false
	}
	return true, s.wait(timeout, func() bool { return gs.leave(s) })
}

// join adds a sleeper to a group with a free place, and reports whether there was
// one.
func (gs *groupedSleepers) join(s *sharedSleeper, value uint32) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if g := s.group; g != nil && !g.ended && len(g.sleepers) < sleepGroupSize && s.listed == g.generation &&
		s.listedValue == value {
		g.add(s) // its thread sleeps on this word already, or is about to look
		return true
	}
	for _, g := range gs.groups {
		if len(g.sleepers) < sleepGroupSize {
			g.add(s)
			g.lookAgain()
			return true
		}
	}
	if len(gs.groups) == maxSleepGroups {
		return false
	}
	g := &sleepGroup{changed: new(Word32)}
	g.add(s)
	gs.groups = append(gs.groups, g)
	go gs.run(g)
	return true
}

// leave takes a sleeper out, unless a wake-up is under way. The kernel may go on
// watching for its word, which touches no memory.
func (gs *groupedSleepers) leave(s *sharedSleeper) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if !s.inGroup {
		return false
	}
	g := s.group
	for i, other := range g.sleepers {
		if other == s {
			g.remove(i)
			break
		}
	}
	if len(g.sleepers) == 0 {
		g.lookAgain() // its thread ends
	}
	return true
}

func (g *sleepGroup) add(s *sharedSleeper) {
	s.group, s.inGroup = g, true
	g.sleepers = append(g.sleepers, s)
}

func (g *sleepGroup) remove(i int) {
	g.sleepers[i].inGroup = false
	last := len(g.sleepers) - 1
	g.sleepers[i], g.sleepers[last] = g.sleepers[last], nil
	g.sleepers = g.sleepers[:last]
}

func (g *sleepGroup) lookAgain() {
	if !g.dozing {
		g.changed.add(1)
		futexWake(g.changed)
	}
}

// run sleeps for a group until it is empty.
func (gs *groupedSleepers) run(g *sleepGroup) {
	var waits futexWaits
	called := 0
	for gs.wakeRung(g, &waits, called) {
		called = 0
		if g.dozing { // changed by this goroutine alone
			pause := unix.NsecToTimespec(int64(dozeTime))
			_ = unix.Nanosleep(&pause, nil) // early is as good
		} else {
			called = waits.sleep()
		}
	}
}

// wakeRung wakes the sleepers that are rung, and the one for whose word the kernel
// was called, whatever the word says now, and lists the others. called is that word's
// place in the last list, 0 if there is none. It reports false, and the group is gone,
// if there are none.
func (gs *groupedSleepers) wakeRung(g *sleepGroup, waits *futexWaits, called int) bool {
	gs.mu.Lock()
	defer gs.mu.Unlock()
	var believed *sharedSleeper
	if called > 0 {
		believed = g.list[called-1]
	}
	clear(g.list)
	g.list = g.list[:0]
	waits.reset()
	waits.add(g.changed, g.changed.Load())
	g.generation++
	g.dozing = false
	for i := 0; i < len(g.sleepers); {
		s := g.sleepers[i]
		if s == believed || s.isRung() {
			g.remove(i)
			s.woken <- struct{}{}
			g.dozing = true
			continue
		}
		waits.add(s.word, s.value)
		g.list = append(g.list, s)
		s.listed, s.listedValue = g.generation, s.value
		i++
	}
	if len(g.sleepers) > 0 {
		return true
	}
	g.ended = true
	for i, other := range gs.groups {
		if other == g {
			gs.groups = append(gs.groups[:i], gs.groups[i+1:]...)
			break
		}
	}
	return false
}
