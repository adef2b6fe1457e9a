package bpf

import (
	"errors"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
)

// goTool returns the path of the go command.
func goTool(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	require.NoError(t, err)
	return path
}

func TestOnlyWhileWatchedIsAProcessCounted(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls, PartSwitches)
	play := rehearse(t, "pipe")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	require.NoError(t, tracer.Watch(play.pid(0), Daemon), "another role")
	require.NoError(t, tracer.Unwatch(play.pid(0)))
	require.NoError(t, tracer.Unwatch(play.pid(0)), "not watched")
	counts := countsOf(t, tracer, play.perform)
	for role := Producer; role <= Daemon; role++ {
		require.Zero(t, counts.Roles[role].Syscalls.Total())
		require.Zero(t, counts.Roles[role].Switches.Voluntary)
	}
}

func TestWatchChangesTheRole(t *testing.T) {
	tracer := openTracer(t, Options{}, PartSyscalls)
	play := rehearse(t, "pipe")
	require.NoError(t, tracer.Watch(play.pid(0), Producer))
	require.NoError(t, tracer.Watch(play.pid(0), Daemon))
	counts := countsOf(t, tracer, play.perform)
	require.Zero(t, counts.Roles[Producer].Syscalls.Total())
	require.EqualValues(t, exchangeRounds, counts.Roles[Daemon].Syscalls.Of(unix.SYS_WRITE))
}

func TestWatchRefuses(t *testing.T) {
	tracer := openTracer(t, Options{})
	for _, role := range []Role{Other, Roles, 255} {
		require.ErrorIs(t, tracer.Watch(os.Getpid(), role), ErrRole)
	}
	for _, pid := range []int{0, -1, 1 << 30} {
		require.ErrorIs(t, tracer.Watch(pid, Producer), ErrNoProcess)
	}
	for pid := range uint32(MaxWatched) {
		require.NoError(t, tracer.loader.maps[tracerMapRoles].Put(1<<30+pid, uint32(Producer)))
	}
	require.ErrorIs(t, tracer.Watch(os.Getpid(), Producer), ErrTooManyWatched)
	require.NoError(t, tracer.Unwatch(1<<30))
	require.NoError(t, tracer.Watch(os.Getpid(), Producer))
}

func TestClosedTracerReturnsErrClosed(t *testing.T) {
	before := leaktest.Descriptors()
	tracer, err := Open(Options{})
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	require.NotEmpty(t, before.Changes())
	require.NoError(t, tracer.Close())
	require.Empty(t, before.Changes(), "descriptors")

	require.ErrorIs(t, tracer.Close(), ErrClosed)
	require.ErrorIs(t, tracer.Watch(os.Getpid(), Producer), ErrClosed)
	require.ErrorIs(t, tracer.Unwatch(os.Getpid()), ErrClosed)
	_, err = tracer.Counts()
	require.ErrorIs(t, err, ErrClosed)
	_ = tracer.Missing()
}

func TestCallsMayComeFromAnyGoroutine(t *testing.T) {
	tracer, err := Open(Options{})
	if errors.Is(err, ErrUnsupported) {
		t.Skip(err)
	}
	require.NoError(t, err)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				err := tracer.Watch(os.Getpid(), Consumer)
				if err == nil {
					_, err = tracer.Counts()
				}
				if err == nil {
					err = tracer.Unwatch(os.Getpid())
				}
				if err != nil {
					if !errors.Is(err, ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	require.NoError(t, tracer.Close())
	wg.Wait()
}

func TestTwoTracersCountTheSame(t *testing.T) {
	one, other := openTracer(t, Options{}, PartSyscalls), openTracer(t, Options{}, PartSyscalls)
	play := rehearse(t, "pipe")
	require.NoError(t, one.Watch(play.pid(0), Producer))
	require.NoError(t, other.Watch(play.pid(0), Consumer))
	var second Counts
	first := countsOf(t, one, func() { second = countsOf(t, other, play.perform) })
	require.EqualValues(t, exchangeRounds, first.Roles[Producer].Syscalls.Of(unix.SYS_READ))
	require.EqualValues(t, exchangeRounds, second.Roles[Consumer].Syscalls.Of(unix.SYS_READ))
	require.Zero(t, second.Roles[Producer].Syscalls.Total())
}

// What the parts that are missing would have measured is nil, and nothing else.
func TestMissingPartsHaveNoFigures(t *testing.T) {
	all := attachments{syscalls: true, switches: true, wakes: true, faults: true, handoff: true,
		copySource: CopyFunctions}
	without := func(change func(a *attachments)) Counts {
		a := all
		change(&a)
		return a.counts(testTime, new([Roles]tracerRoleCounters), 0)
	}
	full := without(func(*attachments) {})
	for _, row := range []struct {
		name   string
		change func(a *attachments)
		want   func(c *Counts, r *RoleCounts)
	}{
		{"system calls", func(a *attachments) { a.syscalls = false }, func(_ *Counts, r *RoleCounts) {
			r.Syscalls, r.Returned, r.Futex, r.Channels = nil, nil, nil, [Channels]*ChannelCounts{}
		}},
		{"switches", func(a *attachments) { a.switches = false }, func(_ *Counts, r *RoleCounts) {
			r.Switches, r.WakeLatency = nil, nil
		}},
		{"wake-ups", func(a *attachments) { a.wakes = false }, func(c *Counts, r *RoleCounts) {
			c.Wakes, r.WakeLatency = nil, nil
		}},
		{"faults", func(a *attachments) { a.faults = false }, func(_ *Counts, r *RoleCounts) { r.Faults = nil }},
		{"hand-offs", func(a *attachments) { a.handoff = false }, func(c *Counts, _ *RoleCounts) { c.Handoff = nil }},
		{"copies", func(a *attachments) { a.copySource = CopyNotMeasured }, func(c *Counts, r *RoleCounts) {
			c.CopySource, r.Copied = CopyNotMeasured, nil
		}},
	} {
		want := full
		for role := Producer; role <= Daemon; role++ {
			row.want(&want, &want.Roles[role])
		}
		require.Equal(t, want, without(row.change), row.name)
		require.Equal(t, RoleCounts{}, want.Roles[Other])
	}
}
