package memseg

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// More pairs than there are threads for play ping-pong, with pauses that take
// their sleeps through the watcher, the groups and back, and with sleeps that end
// by themselves. A wake-up that is lost stops a pair for good.
func TestSharedSleepersLoseNoWakeUp(t *testing.T) {
	const pairs, rounds = 2 * maxParkedThreads, 300
	random := newRandom(t)
	var wg sync.WaitGroup
	for range pairs {
		pauses := make([]time.Duration, rounds)
		for i := range pauses {
			if pauses[i] = time.Duration(random.IntN(200)) * time.Microsecond; random.IntN(20) == 0 {
				pauses[i] += briskTime
			}
		}
		ends := [2]*Doorbell{{futex: new(Word32)}, {futex: new(Word32)}}
		parked := [2]*Word32{new(Word32), new(Word32)}
		for end := range ends {
			own, peer := ends[end], ends[1-end]
			wg.Go(func() {
				for i := range rounds {
					if i%2 == end {
						time.Sleep(pauses[i])
						peer.futex.add(1)
						if parked[1-end].Load() != 0 {
							futexWake(peer.futex)
						}
						continue
					}
					for timeout := time.Millisecond; own.futex.Load() == uint32(i/2); timeout = hang {
						own.sleepShared(uint32(i/2), parked[end], timeout)
					}
				}
			})
		}
	}
	done := make(chan struct{})
	go func() {
		wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(hang):
		require.Fail(t, "a pair is stuck")
	}
}
