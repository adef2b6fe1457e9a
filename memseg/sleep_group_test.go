package memseg

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestGroupedSleepersWakeByTheirWordOrTheirTimeout(t *testing.T) {
	if !supportsFutexWaitMany() {
		t.Skip("this kernel has no futex_waitv (Linux 5.16)")
	}
	const sleepers = sleepGroupSize + 10 // two groups
	var groups groupedSleepers
	words := make([]Word32, sleepers)
	woken := make([]chan bool, sleepers)
	for i := range words {
		woken[i] = make(chan bool, 1)
		go func() {
			_, ok := groups.wait(newSharedSleeper(&words[i], nil), 0, hang)
			woken[i] <- ok
		}()
	}
	asleep := func() (n int) {
		groups.mu.Lock()
		defer groups.mu.Unlock()
		for _, g := range groups.groups {
			n += len(g.sleepers)
		}
		return n
	}
	require.Eventually(t, func() bool { return asleep() == sleepers }, hang, time.Millisecond)
	for i := range words {
		words[i].Store(1)
		futexWake(&words[i])
		require.True(t, await(t, woken[i]))
	}
	require.Zero(t, asleep())
	require.Eventually(t, func() bool {
		groups.mu.Lock()
		defer groups.mu.Unlock()
		return len(groups.groups) == 0
	}, hang, time.Millisecond, "the threads of empty groups end")

	place, awoken := groups.wait(newSharedSleeper(&words[0], nil), 1, time.Millisecond)
	require.True(t, place && !awoken, "a timeout ends a sleep")
	place, awoken = groups.wait(newSharedSleeper(&words[0], nil), 0, hang)
	require.True(t, place && awoken, "a word that differs ends it at once")
}

func TestSleepersBeyondTheGroupsAreTurnedAway(t *testing.T) {
	if !supportsFutexWaitMany() {
		t.Skip("this kernel has no futex_waitv (Linux 5.16)")
	}
	const sleepers = maxSleepGroups*sleepGroupSize + 5
	var groups groupedSleepers
	var word Word32
	var wg sync.WaitGroup
	turnedAway := make(chan bool, sleepers)
	for range sleepers {
		wg.Go(func() {
			if place, _ := groups.wait(newSharedSleeper(&word, nil), 0, hang); !place {
				turnedAway <- true
			}
		})
	}
	for range 5 {
		await(t, turnedAway)
	}
	word.Store(1)
	futexWake(&word)
	wg.Wait()
	require.Empty(t, turnedAway)
}

// A sleeper that left by its timeout and comes back does not disturb its group,
// whose thread still sleeps on its word. It must be woken all the same, and must not
// sleep through a ring that came while it was away, which called nobody.
func TestSleeperThatComesBackToItsGroup(t *testing.T) {
	if !supportsFutexWaitMany() {
		t.Skip("this kernel has no futex_waitv (Linux 5.16)")
	}
	var groups groupedSleepers
	var words [2]Word32
	keeperWoken := make(chan bool, 1)
	go func() {
		_, woken := groups.wait(newSharedSleeper(&words[0], nil), 0, hang)
		keeperWoken <- woken
	}()
	s := newSharedSleeper(&words[1], nil)
	isListed := func() bool { // as join sees it
		groups.mu.Lock()
		defer groups.mu.Unlock()
		return s.group != nil && len(s.group.sleepers) == 1 && s.listed == s.group.generation
	}
	leaveByTimeout := func(value uint32) {
		for {
			_, woken := groups.wait(s, value, 20*time.Millisecond)
			require.False(t, woken)
			if isListed() {
				return
			}
		}
	}
	leaveByTimeout(0)
	woken := make(chan bool, 1)
	go func() {
		_, ok := groups.wait(s, 0, hang)
		woken <- ok
	}()
	require.Eventually(t, func() bool {
		groups.mu.Lock()
		defer groups.mu.Unlock()
		return s.inGroup
	}, hang, time.Millisecond)
	words[1].Store(1)
	futexWake(&words[1])
	require.True(t, await(t, woken), "a ring while it sleeps again")

	leaveByTimeout(1)
	words[1].Store(2)
	_, ok := groups.wait(s, 1, hang)
	require.True(t, ok, "a ring while it was away")
	words[0].Store(1)
	futexWake(&words[0])
	require.True(t, await(t, keeperWoken))
}

// A peer that shares the doorbell may put the word back before the group's thread looks
// at it.
func TestWakeUpOfAGroupIsBelievedWhenItsWordWasPutBack(t *testing.T) {
	if !supportsFutexWaitMany() {
		t.Skip("this kernel has no futex_waitv (Linux 5.16)")
	}
	var groups groupedSleepers
	var words [2]Word32
	bits := []*Word{new(Word), new(Word)}
	sleep := func(i int, bits []*Word) <-chan bool {
		woken := make(chan bool, 1)
		go func() {
			_, ok := groups.wait(newSharedSleeper(&words[i], bits), 0, hang)
			woken <- ok
		}()
		return woken
	}
	listed := func(n int) func() bool {
		return func() bool {
			groups.mu.Lock()
			defer groups.mu.Unlock()
			return len(groups.groups) == 1 && len(groups.groups[0].list) == n && len(groups.groups[0].sleepers) == n
		}
	}
	keeper := sleep(0, nil)
	for range 20 {
		called := sleep(1, bits)
		require.Eventually(t, listed(2), hang, time.Millisecond)
		require.Eventually(t, func() bool { futexWake(&words[1]); return len(called) == 1 }, hang, time.Millisecond)
		require.True(t, <-called, "the kernel was called for it")
	}

	named := sleep(1, bits)
	require.Eventually(t, listed(2), hang, time.Millisecond)
	bits[1].or(1)
	futexWake(&words[0]) // the thread looks at all of them
	require.True(t, await(t, keeper))
	require.True(t, await(t, named), "a bit says that it was rung")
	_, ok := groups.wait(newSharedSleeper(&words[1], bits), 0, hang)
	require.True(t, ok, "one that is rung already does not sleep")
}
