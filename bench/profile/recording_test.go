package profile

import (
	"errors"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/bench"
	"shuffled/bench/results"
	"shuffled/internal/bpf"
)

// A recording is a counter that gives out counts one after the other.
type recording struct {
	snapshots []bpf.Counts
	missing   []bpf.Missing
	watched   map[int]bpf.Role
	open      bool
}

func (r *recording) source() *kernelSource {
	return &kernelSource{open: func() (counter, error) {
		r.open, r.watched = true, make(map[int]bpf.Role)
		return r, nil
	}}
}

func (r *recording) Watch(pid int, role bpf.Role) error {
	r.watched[pid] = role
	return nil
}

func (r *recording) Unwatch(pid int) error {
	delete(r.watched, pid)
	return nil
}

func (r *recording) Counts() (bpf.Counts, error) {
	if len(r.snapshots) == 0 {
		return bpf.Counts{}, errors.New("the recording is over")
	}
	c := r.snapshots[0]
	r.snapshots = r.snapshots[1:]
	return c, nil
}

func (r *recording) Missing() []bpf.Missing { return r.missing }

func (r *recording) Close() error {
	r.open = false
	return nil
}

const (
	producerPID = 101
	consumerPID = 102
)

var pair = []bench.Process{{PID: producerPID, Role: bench.Producer}, {PID: consumerPID, Role: bench.Consumer}}

// socketCounts are those of a pair that moved n MiB through a Unix socket: for
// each MiB 32 calls of 32 KiB on each side, of which two had to wait.
func socketCounts(n uint64) bpf.Counts {
	c := bpf.Counts{Taken: time.Unix(int64(n), 0), CopySource: bpf.CopyFunctions,
		Wakes: new([bpf.Roles][bpf.Roles]uint64)}
	for _, role := range []bpf.Role{bpf.Producer, bpf.Consumer, bpf.Daemon} {
		for kind := range c.Roles[role].Channels {
			c.Roles[role].Channels[kind] = &bpf.ChannelCounts{}
		}
		c.Roles[role].Syscalls, c.Roles[role].Copied = &bpf.SyscallCounts{}, &bpf.CopiedBytes{}
		c.Roles[role].Switches, c.Roles[role].Futex = &bpf.SwitchCounts{}, &bpf.FutexCounts{}
		c.Roles[role].Faults, c.Roles[role].WakeLatency = &bpf.FaultCounts{}, &bpf.Histogram{}
	}
	const mib = 1 << 20
	producer, consumer := &c.Roles[bpf.Producer], &c.Roles[bpf.Consumer]
	producer.Syscalls[unix.SYS_WRITE], consumer.Syscalls[unix.SYS_READ] = 32*n, 32*n
	producer.Syscalls[unix.SYS_EPOLL_PWAIT] = 2 * n
	producer.Copied.FromUser, consumer.Copied.ToUser = n*mib, n*mib
	producer.Channels[bpf.UnixStream].Out = bpf.Traffic{Calls: 32 * n, Bytes: n * mib}
	consumer.Channels[bpf.UnixStream].In = bpf.Traffic{Calls: 32 * n, Bytes: n * mib}
	producer.Switches.Voluntary = 2 * n
	producer.Switches.OffCPU[bpf.OffEpoll] = bpf.OffCPU{Stays: 2 * n, Time: time.Duration(n) * 100 * time.Microsecond}
	c.Wakes[bpf.Consumer][bpf.Producer], c.Wakes[bpf.Other][bpf.Producer] = n, n
	c.Wakes[bpf.Producer][bpf.Other] = 3 * n
	producer.WakeLatency.Buckets[12] = 2 * n
	producer.Faults = &bpf.FaultCounts{User: 3 * n, Kernel: n, Major: n}
	consumer.Futex.Private = bpf.FutexCalls{Waits: 4 * n, Wakes: 5 * n}
	return c
}

// observe runs rounds of a workload past an observer.
func observe(p *Profiler, s results.Settings, f *results.File, rounds int, payload int64,
	rate func(round int) float64) error {
	for i := range rounds {
		if err := errors.Join(p.Begin(s, pair), p.Stop()); err != nil {
			return err
		}
		r, err := p.End(payload)
		if err != nil {
			return err
		}
		if r == nil {
			r = results.Round{}
		}
		r[results.RecordsPerS] = rate(i)
		f.Add(s, r)
	}
	return nil
}
