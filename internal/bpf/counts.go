package bpf

import (
	"fmt"
	"time"
)

// Counts are what the kernel has counted for the watched processes since Open.
// Pointers are nil where nothing was measured: see [Tracer.Missing]. The parts are
// read one after the other while the processes go on, so they need not fit each
// other to the last event.
type Counts struct {
	// Taken is when the counts were read.
	Taken time.Time
	// Roles has the counts of all processes of a role together. Those of Other are
	// nil: what a process does that is not watched is not counted.
	Roles [Roles]RoleCounts
	// CopySource says where RoleCounts.Copied comes from.
	CopySource CopySource
	// Wakes counts wake-ups, Wakes[a][b] those of b by a, where a or b is watched.
	Wakes *[Roles][Roles]uint64
	// Handoff is the way of buffers from producer to consumer.
	Handoff *Handoff
	// Skipped counts events that may be missing in some figure: those that the kernel
	// kept from a program because another run of it was interrupted on that core, and
	// page faults whose mapping could not be looked at because another thread was
	// changing the mappings. It is 0 or small.
	Skipped uint64
}

// RoleCounts are the counts of all processes of one role.
type RoleCounts struct {
	Syscalls *SyscallCounts
	// Returned is what system calls returned as bytes moved.
	Returned *ReturnedBytes
	Futex    *FutexCounts
	// Copied is what was copied between kernel and user memory; see
	// Counts.CopySource.
	Copied *CopiedBytes
	// Channels says what the bytes of Returned went through.
	Channels [Channels]*ChannelCounts
	Switches *SwitchCounts
	// WakeLatency is the time from a wake-up of a thread until it runs.
	WakeLatency *Histogram
	Faults      *FaultCounts
}

// A CopySource is where the number of bytes copied comes from.
type CopySource uint8

// The sources, from the best to the worst.
const (
	// CopyNotMeasured means that there is no figure.
	CopyNotMeasured CopySource = iota
	// CopyFunctions means the results of the kernel's copy functions: exact, whatever
	// system call or io_uring they serve.
	CopyFunctions
	// CopyRequests means the sizes that those functions were called with, which
	// exceed what they copy where the user's memory ends.
	CopyRequests
	// CopyReturns means ReturnedBytes: what system calls say that they moved,
	// whether it was copied or not.
	CopyReturns
)

var copySourceNames = [...]string{"not measured", "copy functions", "sizes asked of copy functions",
	"results of system calls"}

// String returns the source in words.
func (s CopySource) String() string {
	if int(s) < len(copySourceNames) {
		return copySourceNames[s]
	}
	return fmt.Sprintf("source %d", uint8(s))
}

// CopiedBytes are bytes copied between kernel and user memory by read, write and
// their relatives. Small structures that system calls take and return are not
// counted.
type CopiedBytes struct {
	ToUser, FromUser uint64
}

// ReturnedBytes sums the results of system calls that return a number of bytes.
// Those that return a number of messages (recvmmsg, sendmmsg) are not in it.
type ReturnedBytes struct {
	// Read is of read, recvfrom, process_vm_readv and the like, Written of their
	// counterparts.
	Read, Written uint64
	// Spliced is of sendfile, splice, tee, vmsplice and copy_file_range, which move
	// bytes between descriptors.
	Spliced uint64
}

// FutexCounts count calls of futex, futex_waitv, futex_wait and futex_wake.
// Shared are those on memory that processes share, as doorbells are, futex_waitv
// always among them. Private are those within a process: the Go runtime's.
type FutexCounts struct {
	Shared, Private FutexCalls
}

// FutexCalls count the operations of futexes.
type FutexCalls struct {
	// Waits counts the calls that wait, whether they slept or not.
	Waits uint64
	// Waited is the time spent in them, by all threads together. A call counts when
	// it returns.
	Waited time.Duration
	// Wakes counts the calls that wake, Woken the threads they woke.
	Wakes, Woken uint64
	// Others counts requeues and whatever else.
	Others uint64
}

// SwitchCounts count how threads left their cores, as getrusage does.
type SwitchCounts struct {
	// Voluntary switches are those of threads that had to wait, Involuntary those of
	// threads that could have gone on, sched_yield among them.
	Voluntary, Involuntary uint64
	// OffCPU says why, and for how long.
	OffCPU [OffCPUReasons]OffCPU
}

// FaultCounts count page faults that were resolved.
type FaultCounts struct {
	// User counts faults of user code, Kernel those of the kernel on behalf of it,
	// as when read fills memory that has no pages yet.
	User, Kernel uint64
	// Major counts those among both that had to wait for a disk.
	Major uint64
	// FirstTouches counts those among both in mappings of the shared objects of
	// shuffled, each of which mapped a page into the process that touched it; a load
	// maps up to 15 pages around it with it if they have memory.
	FirstTouches uint64
}

// Handoff is the way of buffers from probe.Publish to probe.Consume.
type Handoff struct {
	// Published and Consumed count buffers, the Bytes what was in them.
	Published, PublishedBytes uint64
	Consumed, ConsumedBytes   uint64
	// Latency is the time from publish to consume of every buffer whose ordinal is
	// a multiple of Options.SampleEvery.
	Latency Histogram
	// Missed counts those among such buffers that were consumed and whose
	// publication was not seen, or too long ago.
	Missed uint64
}

// Sub returns what was counted between earlier and c, both of the same Tracer.
func (c Counts) Sub(earlier Counts) Counts {
	d := c
	d.Skipped = rise(c.Skipped, earlier.Skipped)
	d.Wakes = both(c.Wakes, earlier.Wakes, func(a, b [Roles][Roles]uint64) (d [Roles][Roles]uint64) {
		for waker := range d {
			for woken := range d[waker] {
				d[waker][woken] = rise(a[waker][woken], b[waker][woken])
			}
		}
		return d
	})
	d.Handoff = both(c.Handoff, earlier.Handoff, func(a, b Handoff) Handoff {
		return Handoff{
			Published:      rise(a.Published, b.Published),
			PublishedBytes: rise(a.PublishedBytes, b.PublishedBytes),
			Consumed:       rise(a.Consumed, b.Consumed),
			ConsumedBytes:  rise(a.ConsumedBytes, b.ConsumedBytes),
			Latency:        *a.Latency.sub(&b.Latency),
			Missed:         rise(a.Missed, b.Missed),
		}
	})
	for r := range d.Roles {
		d.Roles[r] = c.Roles[r].sub(&earlier.Roles[r])
	}
	return d
}

func (c *RoleCounts) sub(earlier *RoleCounts) RoleCounts {
	d := RoleCounts{
		Syscalls: both(c.Syscalls, earlier.Syscalls, SyscallCounts.sub),
		Returned: both(c.Returned, earlier.Returned, func(a, b ReturnedBytes) ReturnedBytes {
			return ReturnedBytes{rise(a.Read, b.Read), rise(a.Written, b.Written), rise(a.Spliced, b.Spliced)}
		}),
		Futex: both(c.Futex, earlier.Futex, func(a, b FutexCounts) FutexCounts {
			return FutexCounts{a.Shared.sub(b.Shared), a.Private.sub(b.Private)}
		}),
		Copied: both(c.Copied, earlier.Copied, func(a, b CopiedBytes) CopiedBytes {
			return CopiedBytes{rise(a.ToUser, b.ToUser), rise(a.FromUser, b.FromUser)}
		}),
		Switches:    both(c.Switches, earlier.Switches, SwitchCounts.sub),
		WakeLatency: c.WakeLatency.sub(earlier.WakeLatency),
		Faults: both(c.Faults, earlier.Faults, func(a, b FaultCounts) FaultCounts {
			return FaultCounts{rise(a.User, b.User), rise(a.Kernel, b.Kernel), rise(a.Major, b.Major),
				rise(a.FirstTouches, b.FirstTouches)}
		}),
	}
	for i := range d.Channels {
		d.Channels[i] = both(c.Channels[i], earlier.Channels[i], func(a, b ChannelCounts) ChannelCounts {
			return ChannelCounts{a.In.sub(b.In), a.Out.sub(b.Out)}
		})
	}
	return d
}

func (c FutexCalls) sub(earlier FutexCalls) FutexCalls {
	return FutexCalls{
		Waits:  rise(c.Waits, earlier.Waits),
		Waited: rise(c.Waited, earlier.Waited),
		Wakes:  rise(c.Wakes, earlier.Wakes),
		Woken:  rise(c.Woken, earlier.Woken),
		Others: rise(c.Others, earlier.Others),
	}
}

func (c SwitchCounts) sub(earlier SwitchCounts) SwitchCounts {
	d := SwitchCounts{Voluntary: rise(c.Voluntary, earlier.Voluntary),
		Involuntary: rise(c.Involuntary, earlier.Involuntary)}
	for i := range d.OffCPU {
		d.OffCPU[i] = OffCPU{
			Stays: rise(c.OffCPU[i].Stays, earlier.OffCPU[i].Stays),
			Time:  rise(c.OffCPU[i].Time, earlier.OffCPU[i].Time),
		}
	}
	return d
}

// rise returns how far a counter rose, 0 if the two were swapped.
func rise[T uint64 | time.Duration](now, earlier T) T {
	if now < earlier {
		return 0
	}
	return now - earlier
}

// both returns what f makes of two figures, nil where one was not measured.
func both[T any](now, earlier *T, f func(now, earlier T) T) *T {
	if now == nil || earlier == nil {
		return nil
	}
	d := f(*now, *earlier)
	return &d
}
