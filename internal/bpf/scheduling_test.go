package bpf

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

const scheduleRounds = 20

func init() {
	parts["spinner"] = spinUntilOtherHasPlayed
	parts["napper"] = nap
	parts["yielder"] = yield
	for name, b := range blocks {
		parts["blocked-"+name] = func(s *stage) error { return blockUntilGiven(s, b) }
	}
}

// toFirstCore keeps this thread on the first core that it may use.
func toFirstCore() error {
	var all, first unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for core := range 1024 {
		if all.IsSet(core) {
			first.Set(core)
			break
		}
	}
	return unix.SchedSetaffinity(0, &first)
}

func spinUntilOtherHasPlayed(s *stage) error {
	if err := toFirstCore(); err != nil {
		return err
	}
	s.begin()
	for other := s.shared.Word(wordReady + 8*1); other.Load() < curtainDown; {
	}
	return nil
}

func nap(s *stage) error {
	if err := toFirstCore(); err != nil {
		return err
	}
	s.begin()
	for range scheduleRounds {
		request := unix.NsecToTimespec(int64(time.Millisecond))
		if err := unix.Nanosleep(&request, nil); err != nil {
			return err
		}
	}
	return nil
}

// The timer of the napper interrupts the spinner, who did not wake it.
func TestTimersAreNotWakeUpsByWhomTheyInterrupt(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls, PartSwitches, PartWakes, PartTimers)
	play := rehearse(t, "spinner", "napper")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	require.NoError(t, tracer.Watch(play.pid(1), Consumer))
	counts := countsOf(t, tracer, play.perform)

	require.Zero(t, counts.Wakes[Producer][Consumer])
	require.GreaterOrEqual(t, counts.Wakes[Other][Consumer], uint64(scheduleRounds))
	producer, consumer := counts.Roles[Producer].Switches, counts.Roles[Consumer].Switches
	require.GreaterOrEqual(t, consumer.OffCPU[OffNanosleep].Stays, uint64(scheduleRounds))
	require.GreaterOrEqual(t, consumer.OffCPU[OffNanosleep].Time, scheduleRounds*time.Millisecond)
	require.GreaterOrEqual(t, consumer.Voluntary, uint64(scheduleRounds))
	require.NotZero(t, producer.Involuntary, "the spinner was never preempted by whom it shares its core with")
	require.NotZero(t, producer.OffCPU[OffPreempted].Stays)
	require.NotZero(t, producer.OffCPU[OffPreempted].Time)
}

// yield yields until that has made its thread leave its core three times.
func yield(s *stage) error {
	if err := toFirstCore(); err != nil {
		return err
	}
	involuntary := func() (int64, error) {
		var use unix.Rusage
		err := unix.Getrusage(unix.RUSAGE_THREAD, &use)
		return use.Nivcsw, err
	}
	s.begin()
	for left, calls := 0, 0; left < 3; calls++ {
		before, err := involuntary()
		if err != nil {
			return err
		}
		if _, _, errno := unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0); errno != 0 {
			return errno
		}
		after, err := involuntary()
		if err != nil {
			return err
		}
		if after > before {
			left++
		}
		if calls == 1_000_000 {
			return fmt.Errorf("nobody took the core in %d yields", calls)
		}
	}
	return nil
}

func TestYieldsAreToldFromPreemption(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls, PartSwitches)
	play := rehearse(t, "spinner", "yielder")
	require.NoError(t, tracer.Watch(play.pid(1), Consumer))
	consumer := countsOf(t, tracer, play.perform).Roles[Consumer]
	require.GreaterOrEqual(t, consumer.Syscalls.Of(unix.SYS_SCHED_YIELD), uint64(3))
	require.NotZero(t, consumer.Switches.OffCPU[OffYield].Stays)
}

// A block is a call that waits until the test gives it something.
type block struct {
	reason OffCPUReason
	// open returns the ends of a channel; a child waits for something from the
	// second and gets it by the first.
	open func() (to, from int, err error)
	// wait waits in a call of that number. It must not tell the runtime that it
	// blocks, which makes threads wait for their turn.
	wait func(from int) error
	call int
}

var blocks = map[string]block{
	"pipe": {OffPipe, openPipe, blockingRead, unix.SYS_READ},
	"stream": {OffSocket, func() (int, int, error) { return openSocketPair(unix.SOCK_STREAM) }, blockingRead,
		unix.SYS_READ},
	"packet": {OffSocket, func() (int, int, error) { return openSocketPair(unix.SOCK_SEQPACKET) }, blockingReceive,
		unix.SYS_RECVFROM},
	"tcp":   {OffSocket, openTCP, blockingRead, unix.SYS_READ},
	"poll":  {OffEpoll, openEvent, blockingPoll, unix.SYS_PPOLL},
	"event": {OffOther, openEvent, blockingRead, unix.SYS_READ},
}

func openEvent() (to, from int, _ error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC)
	return fd, fd, err
}

// blockUntilGiven waits in each round for what the test gives it.
func blockUntilGiven(s *stage, b block) error {
	to, from, err := b.open()
	if err != nil {
		return err
	}
	s.shared.Word(wordGift).Store(uint64(to))
	s.begin()
	for round := range uint64(scheduleRounds) {
		s.shared.Word(wordRound).Store(round + 1)
		if err := b.wait(from); err != nil {
			return err
		}
	}
	return nil
}

// giveWhenAsleep gives a child eight bytes in each round, when it has left its
// core to wait for them.
func giveWhenAsleep(t *testing.T, p *play, b block) {
	pid := p.pid(0)
	pidfd, err := unix.PidfdOpen(pid, 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(pidfd)) }()
	to, err := unix.PidfdGetfd(pidfd, int(p.shared.Word(wordGift).Load()), 0)
	require.NoError(t, err)
	defer func() { require.NoError(t, unix.Close(to)) }()
	p.shared.Word(wordBegin).Store(curtainUp)
	for round := range uint64(scheduleRounds) {
		for p.shared.Word(wordRound).Load() <= round || !isAsleepIn(t, pid, b.call) {
			time.Sleep(50 * time.Microsecond)
		}
		n, err := unix.Write(to, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		require.NoError(t, err)
		require.Equal(t, 8, n)
	}
	p.awaitAll(curtainDown)
}

// isAsleepIn reports whether the main thread of a process is off its core in a
// system call.
func isAsleepIn(t *testing.T, pid, call int) bool {
	t.Helper()
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/syscall", pid, pid))
	require.NoError(t, err)
	return bytes.HasPrefix(state, fmt.Appendf(nil, "%d ", call))
}

func TestBlockedThreadsAreCountedByWhatTheyWaitFor(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls, PartSwitches, PartWakes)
	for name, b := range blocks {
		t.Run(name, func(t *testing.T) {
			play := rehearse(t, "blocked-"+name)
			require.NoError(t, tracer.Watch(play.pid(0), Consumer))
			counts := countsOf(t, tracer, func() { giveWhenAsleep(t, play, b) })
			require.NoError(t, tracer.Unwatch(play.pid(0)))
			off := counts.Roles[Consumer].Switches.OffCPU
			require.EqualValues(t, scheduleRounds, off[b.reason].Stays)
			require.Positive(t, off[b.reason].Time)
			for _, reason := range []OffCPUReason{OffPipe, OffSocket, OffFutexShared, OffEpoll, OffPageFault} {
				if reason != b.reason {
					require.Zero(t, off[reason].Stays, "%s", reason)
				}
			}
			require.GreaterOrEqual(t, counts.Wakes[Other][Consumer], uint64(scheduleRounds))
		})
	}
}
