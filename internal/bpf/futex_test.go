package bpf

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const futexRounds = 20

func init() {
	parts["futexes"] = callFutexes
	parts["new-futexes"] = callNewFutexes
	parts["waker"] = wakeSleeper
	parts["sleeper"] = sleepUntilWoken
}

// callFutexes waits for what is not so, and wakes nobody.
func callFutexes(s *stage) error {
	w := s.futex()
	s.begin()
	for range futexRounds {
		if _, err := callFutex(w, futexWaitOp, 1); !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("wait: %w", err)
		}
		if _, err := callFutex(w, futexWaitBitsetOp|futexRealtime, 1); !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("wait by the real clock: %w", err)
		}
		if err := callFutexWaitv(w, 1); !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("wait for several: %w", err)
		}
		if n, err := callFutex(w, futexWakeOp, 1); n != 0 || err != nil {
			return fmt.Errorf("woke %d: %w", n, err)
		}
		if _, err := callFutex(w, futexRequeueOp, 1); err != nil {
			return fmt.Errorf("requeue: %w", err)
		}
	}
	return nil
}

func TestSharedFutexesAreCountedByWhatTheyDo(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls)
	play := rehearse(t, "futexes")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	got := countsOf(t, tracer, play.perform).Roles[Producer].Futex.Shared
	require.Positive(t, got.Waited)
	got.Waited = 0
	require.Equal(t, FutexCalls{Waits: 3 * futexRounds, Wakes: futexRounds, Others: futexRounds}, got)
}

// callNewFutexes does the same with the calls of Linux 6.7. The runtime does not
// use these, so its private futexes are not in the way.
func callNewFutexes(s *stage) error {
	w := s.futex()
	if _, err := callFutexWake(w, 1, futex2Size32); errors.Is(err, unix.ENOSYS) {
		s.begin()
		return nil
	}
	s.begin()
	for range futexRounds {
		if err := callFutexWait(w, 1, futex2Size32); !errors.Is(err, unix.EAGAIN) {
			return fmt.Errorf("wait: %w", err)
		}
		if n, err := callFutexWake(w, 1, futex2Size32); n != 0 || err != nil {
			return fmt.Errorf("woke %d: %w", n, err)
		}
		if n, err := callFutexWake(w, 1, futex2Size32|futex2Private); n != 0 || err != nil {
			return fmt.Errorf("woke %d: %w", n, err)
		}
	}
	return nil
}

func TestNewFutexCallsAreCountedToo(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls)
	play := rehearse(t, "new-futexes")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	got := countsOf(t, tracer, play.perform).Roles[Producer]
	if got.Syscalls.Of(unix.SYS_FUTEX_WAKE) == 0 {
		t.Skip("this kernel has no futex_wake (Linux 6.7)")
	}
	require.EqualValues(t, futexRounds, got.Futex.Shared.Waits)
	require.EqualValues(t, futexRounds, got.Futex.Shared.Wakes)
	require.Zero(t, got.Futex.Shared.Woken)
	require.GreaterOrEqual(t, got.Futex.Private.Wakes, uint64(futexRounds))
}

// wakeSleeper wakes the sleeper as often as it takes until it has slept in each
// round.
func wakeSleeper(s *stage) error {
	w := s.futex()
	s.begin()
	for range futexRounds {
		for {
			n, err := callFutex(w, futexWakeOp, 1)
			if err != nil {
				return fmt.Errorf("wake: %w", err)
			}
			if n == 1 {
				break
			}
		}
	}
	return nil
}

func sleepUntilWoken(s *stage) error {
	w := s.futex()
	s.begin()
	for range futexRounds {
		if _, err := callFutex(w, futexWaitOp, 0); err != nil {
			return fmt.Errorf("sleep: %w", err)
		}
	}
	return nil
}

func TestParkedHandOffIsAWakeUpOfTheConsumerByTheProducer(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls, PartSwitches, PartWakes)
	play := rehearse(t, "waker", "sleeper")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	require.NoError(t, tracer.Watch(play.pid(1), Consumer))
	counts := countsOf(t, tracer, play.perform)

	producer, consumer := counts.Roles[Producer], counts.Roles[Consumer]
	require.EqualValues(t, futexRounds, producer.Futex.Shared.Woken)
	require.EqualValues(t, futexRounds, consumer.Futex.Shared.Waits)
	require.Zero(t, consumer.Futex.Shared.Woken)
	require.EqualValues(t, futexRounds, counts.Wakes[Producer][Consumer])
	require.Zero(t, counts.Wakes[Consumer][Producer])
	require.Zero(t, counts.Wakes[Producer][Daemon]+counts.Wakes[Daemon][Consumer])
	require.Zero(t, counts.Wakes[Other][Other])
	// A sleeper that is woken before it has left its core does not leave it.
	slept := consumer.Switches.OffCPU[OffFutexShared].Stays
	require.NotZero(t, slept)
	require.LessOrEqual(t, slept, uint64(futexRounds))
	require.GreaterOrEqual(t, consumer.WakeLatency.Count(), slept)
	require.GreaterOrEqual(t, consumer.Futex.Shared.Waited, consumer.Switches.OffCPU[OffFutexShared].Time)
	require.Zero(t, producer.Switches.OffCPU[OffFutexShared].Stays)
}
