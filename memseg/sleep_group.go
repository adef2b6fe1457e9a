package memseg

import (
	"sync"
	"time"
)

// Goroutines that sleep beyond maxParkedThreads share threads, in groups: one
// thread sleeps on the futex words of a whole group in one call. Sleepers beyond
// the groups, or on a kernel without that call (before Linux 5.16), share the
// watcher.
const (
	maxSleepGroups = 16
	sleepGroupSize = maxFutexWaitMany - 1 // one is the group's own word
)

// sleepGroups are the groups of this process.
var sleepGroups groupedSleepers

type groupedSleepers struct {
	mu     sync.Mutex // guards the groups and what is in them
	groups []*sleepGroup
}

// A sleepGroup has a goroutine while it has sleepers.
type sleepGroup struct {
	sleepers []*groupSleeper
	changed  *Word32 // counts changes of sleepers, so that its thread looks again
}

type groupSleeper struct {
	word  *Word32
	value uint32
	woken chan struct{}
}

// wait blocks until *w differs from value or the timeout passes. It reports false
// at once if there is no place.
func (s *groupedSleepers) wait(w *Word32, value uint32, timeout time.Duration) bool {
	if !supportsFutexWaitMany() {
		return false
	}
	sl := &groupSleeper{word: w, value: value, woken: make(chan struct{})}
	g := s.join(sl)
	if g == nil {
		return false
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-sl.woken:
	case <-timer.C:
		s.leave(g, sl)
	}
	return true
}

// join adds a sleeper to a group with a free place, or returns nil.
func (s *groupedSleepers) join(sl *groupSleeper) *sleepGroup {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		if len(g.sleepers) < sleepGroupSize {
			g.sleepers = append(g.sleepers, sl)
			g.lookAgain()
			return g
		}
	}
	if len(s.groups) == maxSleepGroups {
		return nil
	}
	g := &sleepGroup{sleepers: []*groupSleeper{sl}, changed: new(Word32)}
	s.groups = append(s.groups, g)
	go s.run(g)
	return g
}

// leave takes a sleeper out. Its word is not touched any more afterwards.
func (s *groupedSleepers) leave(g *sleepGroup, sl *groupSleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range g.sleepers {
		if other == sl {
			g.remove(i)
			g.lookAgain()
			return
		}
	}
}

func (g *sleepGroup) remove(i int) {
	last := len(g.sleepers) - 1
	g.sleepers[i], g.sleepers[last] = g.sleepers[last], nil
	g.sleepers = g.sleepers[:last]
}

func (g *sleepGroup) lookAgain() {
	g.changed.add(1)
	futexWake(g.changed)
}

// run sleeps for a group until it is empty.
func (s *groupedSleepers) run(g *sleepGroup) {
	var waits futexWaits
	for s.wakeChanged(g, &waits) {
		waits.sleep()
	}
}

// wakeChanged wakes the sleepers whose words have changed and lists the others.
// It reports false, and the group is gone, if there are none.
func (s *groupedSleepers) wakeChanged(g *sleepGroup, waits *futexWaits) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	waits.reset()
	waits.add(g.changed, g.changed.Load())
	for i := 0; i < len(g.sleepers); {
		sl := g.sleepers[i]
		if sl.word.Load() != sl.value {
			close(sl.woken)
			g.remove(i)
			continue
		}
		waits.add(sl.word, sl.value)
		i++
	}
	if len(g.sleepers) > 0 {
		return true
	}
	for i, other := range s.groups {
		if other == g {
			s.groups = append(s.groups[:i], s.groups[i+1:]...)
			break
		}
	}
	return false
}
