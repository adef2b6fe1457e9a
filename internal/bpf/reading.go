package bpf

import (
	"fmt"
	"reflect"
	"time"
)

// Counts returns what was counted since Open.
func (t *Tracer) Counts() (Counts, error) {
	var (
		raw     [Roles]tracerRoleCounters
		skipped uint64
	)
	taken := time.Now()
	err := t.with(func(l *loader) (err error) {
		for role := range raw {
			if raw[role], err = l.counters(Role(role)); err != nil {
				return err
			}
		}
		skipped, err = l.skipped()
		return err
	})
	if err != nil {
		return Counts{}, fmt.Errorf("read counts: %w", err)
	}
	return t.attached.counts(taken, &raw, skipped), nil
}

// counters returns the sum over the cores of what was counted for a role.
func (l *loader) counters(r Role) (sum tracerRoleCounters, _ error) {
	var cores []tracerRoleCounters
	if err := l.maps[tracerMapCounters].Lookup(uint32(r), &cores); err != nil {
		return sum, fmt.Errorf("role %s: %w", r, err)
	}
	for i := range cores {
		addCounters(reflect.ValueOf(&sum).Elem(), reflect.ValueOf(&cores[i]).Elem())
	}
	return sum, nil
}

// addCounters adds the numbers in more to those in sum, which is of the same type.
func addCounters(sum, more reflect.Value) {
	switch sum.Kind() {
	case reflect.Uint64:
		sum.SetUint(sum.Uint() + more.Uint())
	case reflect.Array:
		for i := range sum.Len() {
			addCounters(sum.Index(i), more.Index(i))
		}
	case reflect.Struct:
		for i := range sum.NumField() {
			addCounters(sum.Field(i), more.Field(i))
		}
	}
}

// counts returns the figures of the parts that are attached.
func (a *attachments) counts(taken time.Time, raw *[Roles]tracerRoleCounters, skipped uint64) Counts {
	c := Counts{Taken: taken, CopySource: a.copySource, Skipped: skipped}
	for role := Producer; role <= Daemon; role++ {
		c.Roles[role] = a.roleCounts(&raw[role])
	}
	for role := range raw {
		c.Skipped += raw[role].FaultsUnplaced
	}
	if a.wakes {
		c.Wakes = new([Roles][Roles]uint64)
		for waker := range raw {
			c.Wakes[waker] = raw[waker].Wakes
		}
	}
	if a.handoff {
		c.Handoff = new(Handoff)
		for role := range raw {
			r := &raw[role]
			c.Handoff.Published += r.Published
			c.Handoff.PublishedBytes += r.PublishedBytes
			c.Handoff.Consumed += r.Consumed
			c.Handoff.ConsumedBytes += r.ConsumedBytes
			c.Handoff.Missed += r.Missed
			for i, n := range r.Handoff {
				c.Handoff.Latency.Buckets[i] += n
			}
		}
	}
	return c
}

func (a *attachments) roleCounts(raw *tracerRoleCounters) (c RoleCounts) {
	if a.syscalls {
		c.Syscalls = (*SyscallCounts)(&raw.Syscalls)
		c.Returned = &ReturnedBytes{Read: raw.ReturnedRead, Written: raw.ReturnedWritten, Spliced: raw.ReturnedSpliced}
		for i := range c.Channels {
			c.Channels[i] = &ChannelCounts{
				In: traffic(raw.Channels[i*directions+in]), Out: traffic(raw.Channels[i*directions+out]),
			}
		}
		c.Futex = &FutexCounts{Shared: futexCalls(raw.FutexShared), Private: futexCalls(raw.FutexPrivate)}
	}
	switch a.copySource {
	case CopyFunctions, CopyRequests:
		c.Copied = &CopiedBytes{ToUser: raw.Copied[in], FromUser: raw.Copied[out]}
	case CopyReturns:
		c.Copied = &CopiedBytes{ToUser: raw.ReturnedRead, FromUser: raw.ReturnedWritten}
	}
	if a.switches {
		c.Switches = &SwitchCounts{Voluntary: raw.Voluntary, Involuntary: raw.Involuntary}
		for i, off := range raw.OffCpu {
			c.Switches.OffCPU[i] = OffCPU{Stays: off.Stays, Time: time.Duration(off.Ns)}
		}
	}
	if a.switches && a.wakes {
		c.WakeLatency = &Histogram{raw.WakeLatency}
	}
	if a.faults {
		c.Faults = &FaultCounts{
			User: raw.FaultsUser, Kernel: raw.FaultsKernel, Major: raw.FaultsMajor, FirstTouches: raw.FirstTouches,
		}
	}
	return c
}

// The directions of copies and channels: IN and OUT in programs/state.h.
const (
	in = iota
	out
	directions
)

func futexCalls(raw tracerFutexCalls) FutexCalls {
	return FutexCalls{
		Waits: raw.Waits, Waited: time.Duration(raw.WaitedNs), Wakes: raw.Wakes, Woken: raw.Woken, Others: raw.Others,
	}
}

func traffic(raw tracerTraffic) Traffic {
	return Traffic{Calls: raw.Calls, Empty: raw.Empty, Bytes: raw.Bytes}
}
