package memseg

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func init() { children["many sleepers"] = parkMany }

// hang is how long a test waits for what must happen at once before it fails.
const hang = 30 * time.Second

// await receives what must come at once.
func await[T any](t *testing.T, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(hang):
		t.Fatal("hangs")
		panic("unreachable")
	}
}

// A sleeper is an owner of a doorbell.
type sleeper struct {
	bell   *Doorbell
	parked *Word32
}

const sleeperChannels = 200

func newSleeper(t testing.TB, newRegion func(testing.TB, int) *Region) sleeper {
	region := newRegion(t, pageSize)
	bell, err := NewDoorbell(region, sleeperChannels)
	require.NoError(t, err)
	return sleeper{bell, newRegion(t, pageSize).Word32(gateParked)}
}

// sleep parks until the doorbell was rung since rings was loaded, for ever if
// the ring is lost.
func (s sleeper) sleep(ctx context.Context, rings uint32) error {
	for s.bell.Rings() == rings {
		if err := s.bell.park(ctx, rings, s.parked, time.Hour); err != nil {
			return err
		}
	}
	return nil
}

func (s sleeper) collect() []int {
	var channels []int
	s.bell.Collect(sleeperChannels, func(c int) { channels = append(channels, c) })
	return channels
}

func overSleepers(t *testing.T, f func(t *testing.T, s sleeper)) {
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		s := newSleeper(t, newRegion)
		f(t, s)
		require.Zero(t, s.parked.Load(), "nobody is parked")
		require.Empty(t, threadTokens, "no thread is held")
	})
}

func TestRingNamesItsChannelsOnce(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		require.Empty(t, s.collect())
		rings := s.bell.Rings()
		for _, c := range []int{0, 63, 64, 130, 199, 64} {
			s.bell.Ring(c, s.parked)
			require.NotEqual(t, rings, s.bell.Rings())
			rings = s.bell.Rings()
		}
		require.Equal(t, []int{0, 63, 64, 130, 199}, s.collect())
		require.Empty(t, s.collect())
		s.bell.Wake()
		require.NotEqual(t, rings, s.bell.Rings())
		require.Empty(t, s.collect(), "a wake names nobody")
	})
}

func TestRingBeforeParkIsNotLost(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 1000 {
				rings := s.bell.Rings()
				if i%2 == 0 {
					s.bell.Ring(i%sleeperChannels, s.parked)
				} else {
					s.bell.Wake()
				}
				_ = s.bell.park(t.Context(), rings, s.parked, time.Hour)
			}
		}()
		await(t, done)
	})
}

func TestThousandRingsBeforeTheSleeperLooksAreOneWakeUp(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		rings := s.bell.Rings()
		for i := range 1000 {
			s.bell.Ring(i%10, s.parked)
		}
		wakeUps := 0
		for {
			require.NoError(t, s.bell.Park(t.Context(), rings, s.parked, time.Millisecond))
			if s.bell.Rings() == rings {
				break // it has slept: nothing came
			}
			rings = s.bell.Rings()
			wakeUps++
			require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, s.collect())
		}
		require.Equal(t, 1, wakeUps)
	})
}

func TestRingAndWakeReachASleeper(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		for i := range 100 {
			rings := s.bell.Rings()
			s.collect()
			woken := make(chan error, 1)
			go func() { woken <- s.sleep(context.Background(), rings) }()
			for s.parked.Load() == 0 {
				runtime.Gosched()
			}
			if i%3 > 0 {
				time.Sleep(time.Duration(i%3) * 100 * time.Microsecond) // into the kernel
			}
			if i%2 == 0 {
				s.bell.Ring(7, s.parked)
			} else {
				s.bell.Wake()
			}
			require.NoError(t, await(t, woken))
			require.Zero(t, s.parked.Load())
		}
	})
}

func TestParkEndsWithItsContextAndLeavesNothing(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		mine := errors.New("mine")
		ctx, cancel := context.WithCancelCause(context.Background())
		result := make(chan error, 1)
		rings := s.bell.Rings()
		go func() { result <- s.bell.park(ctx, rings, s.parked, time.Hour) }()
		for s.parked.Load() == 0 {
			runtime.Gosched()
		}
		cancel(mine)
		require.ErrorIs(t, await(t, result), mine)
		require.Zero(t, s.parked.Load())

		rings = s.bell.Rings()
		require.ErrorIs(t, s.bell.Park(ctx, rings, s.parked, time.Hour), mine, "one that has ended already")
		require.Equal(t, rings, s.bell.Rings(), "without a wake-up")

		deadline, stop := context.WithTimeout(context.Background(), time.Millisecond)
		defer stop()
		require.ErrorIs(t, s.bell.Park(deadline, s.bell.Rings(), s.parked, time.Hour), context.DeadlineExceeded)

		rings = s.bell.Rings()
		require.NoError(t, s.bell.Park(context.Background(), rings, s.parked, 0), "a later sleep is as usual")
		require.Equal(t, rings, s.bell.Rings())
	})
}

func TestParkReturnsAfterItsTimeout(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		rings := s.bell.Rings()
		for _, timeout := range []time.Duration{0, time.Nanosecond, time.Millisecond, -time.Second} {
			require.NoError(t, s.bell.Park(t.Context(), rings, s.parked, timeout), "%v", timeout)
		}
		require.Equal(t, rings, s.bell.Rings())
	})
}

func TestHostileBitsAndCountsAreHarmless(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		random := newRandom(t)
		for range 200 {
			for _, word := range s.bell.bits {
				word.Store(random.Uint64())
			}
			s.bell.futex.Store(random.Uint32())
			for channels := range sleeperChannels {
				s.bell.bits[channels/64].or(1 << (channels % 64))
				s.bell.bits[len(s.bell.bits)-1].or(1 << 63)
				s.bell.Collect(channels, func(c int) { require.Less(t, c, channels) })
			}
			require.Empty(t, s.collect())
		}
		s.bell.futex.Store(1<<32 - 1)
		s.bell.Ring(3, s.parked)
		require.Zero(t, s.bell.Rings(), "the count wraps")
		require.NoError(t, s.bell.Park(t.Context(), 1<<32-1, s.parked, MaxParkTime))
	})
}

func TestSpoiltDoorbellWakesTooOftenAtWorst(t *testing.T) {
	overSleepers(t, func(t *testing.T, s sleeper) {
		stop := make(chan struct{})
		var hostile sync.WaitGroup
		hostile.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					s.bell.Wake()
					s.bell.bits[0].Store(^uint64(0))
					runtime.Gosched()
				}
			}
		})
		for range 1000 {
			rings := s.bell.Rings()
			require.NoError(t, s.bell.Park(t.Context(), rings, s.parked, MaxParkTime))
			s.collect()
		}
		close(stop)
		hostile.Wait()
	})
}

func TestParkOnADoorbellThatIsGoneIsAnError(t *testing.T) {
	mem, err := unix.Mmap(-1, 0, pageSize, unix.PROT_NONE, unix.MAP_PRIVATE|unix.MAP_ANON)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Munmap(mem)) }()
	region := &Region{name: "gone", mem: mem, refs: 1, heap: true}
	bell, err := NewDoorbell(region, 1)
	require.NoError(t, err)
	parked := new(Word32)
	park := func() (err error) {
		defer RecoverFault(debug.SetPanicOnFault(true), "park", &err)
		return bell.park(context.Background(), 0, parked, time.Second)
	}
	require.ErrorIs(t, park(), ErrFault)
	require.Zero(t, parked.Load())
	require.Empty(t, threadTokens)
}

func TestMoreSleepersThanThreadsAllWake(t *testing.T) {
	const sleepers = 3 * maxParkedThreads
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		var all []sleeper
		for range sleepers {
			all = append(all, newSleeper(t, newRegion))
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		results := make([]chan error, sleepers)
		for i, s := range all {
			rings := s.bell.Rings()
			results[i] = make(chan error, 1)
			go func() { results[i] <- s.sleep(ctx, rings) }()
		}
		sharing := func() (n int) {
			sleepGroups.mu.Lock()
			defer sleepGroups.mu.Unlock()
			for _, g := range sleepGroups.groups {
				n += len(g.sleepers)
			}
			idleWatcher.mu.Lock()
			defer idleWatcher.mu.Unlock()
			return n + len(idleWatcher.sleepers)
		}
		require.Eventually(t, func() bool {
			return len(threadTokens) == maxParkedThreads && sharing() == sleepers-maxParkedThreads
		}, hang, time.Millisecond, "sixteen have a thread each, the others share some")
		for i, s := range all[:sleepers/2] {
			s.bell.Ring(i, s.parked)
			require.NoError(t, await(t, results[i]))
			require.Equal(t, []int{i}, s.collect())
		}
		cancel()
		for _, result := range results[sleepers/2:] {
			require.ErrorIs(t, await(t, result), context.Canceled)
		}
		require.Empty(t, threadTokens)
		require.Zero(t, sharing())
	})
}

func TestThousandSleepersNeedFewThreads(t *testing.T) {
	require.NoError(t, childCommand(t, "many sleepers").Run())
}

// parkMany counts the threads of a process with a thousand sleepers.
func parkMany() error {
	const sleepers = 1000
	region := NewHeapRegion("doorbells", sleepers*pageSize)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for i := range sleepers {
		s := sleeper{&Doorbell{futex: region.Word32(i * pageSize)}, region.Word32(i*pageSize + gateParked)}
		wg.Go(func() { _ = s.sleep(ctx, 0) })
	}
	most := 0
	for range 50 {
		time.Sleep(2 * time.Millisecond)
		n, err := threads()
		if err != nil {
			return err
		}
		most = max(most, n)
	}
	cancel()
	wg.Wait()
	if limit := runtime.GOMAXPROCS(0) + 32; most > limit {
		return fmt.Errorf("%d threads with %d sleepers, want at most %d", most, sleepers, limit)
	}
	return nil
}

func threads() (int, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(status), "Threads:")
	line, _, _ := strings.Cut(after, "\n")
	return strconv.Atoi(strings.TrimSpace(line))
}

func TestSleepersWhoseCountIsPutBackAreWoken(t *testing.T) {
	const sleepers = 3 * maxParkedThreads
	var all []sleeper
	for range sleepers {
		all = append(all, newSleeper(t, memories[0].make))
	}
	for range 3 {
		results := make([]chan error, sleepers)
		for i, s := range all {
			rings := s.bell.Rings()
			results[i] = make(chan error, 1)
			go func() {
				for !anySet(s.bell.bits) {
					if err := s.bell.park(context.Background(), rings, s.parked, hang); err != nil {
						results[i] <- err
						return
					}
				}
				results[i] <- nil
			}()
		}
		for i, s := range all {
			// Without futex_waitv, who has no thread is watched, and says nothing.
			for s.parked.Load() == 0 && supportsFutexWaitMany() {
				runtime.Gosched()
			}
			s.bell.bits[i/doorbellBitsPerWord].or(1)
			// Again and again: who says that it sleeps may be about to, and finds the
			// count as it was.
			rung := make(chan struct{})
			var ringing sync.WaitGroup
			ringing.Go(func() {
				for {
					futexWake(s.bell.futex)
					select {
					case <-rung:
						return
					case <-time.After(time.Millisecond):
					}
				}
			})
			err := await(t, results[i])
			close(rung)
			ringing.Wait()
			require.NoError(t, err)
			require.Equal(t, []int{i / doorbellBitsPerWord * doorbellBitsPerWord}, s.collect())
		}
	}
}
