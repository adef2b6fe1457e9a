// Package bpf counts in the kernel what processes that exchange data cost: system
// calls, bytes copied between kernel and user memory and the channels they went
// through, context switches and the time off the cores, wake-ups, page faults, and
// the way of a buffer from producer to consumer.
//
// [Open] loads the programs, [Tracer.Watch] says which processes to count in which
// [Role], and [Tracer.Counts] reads the totals, of which [Counts.Sub] gives those
// of an interval. There is no stream of events: the programs add to counters of
// each core. For a process that is not watched they end after one look-up. It takes
// root, or CAP_BPF and CAP_PERFMON, and Linux 6.1 with descriptions of its types (BTF).
//
// # What is counted where
//
// System calls, their results, the channel that their descriptor leads to, and
// futexes are counted by tracepoints at the entry and the exit of every system
// call. So what io_uring moves is in no channel, and recvmmsg, sendmmsg, sendfile
// and splice are counted as calls, not as traffic of a channel.
//
// Bytes copied are counted by the functions of the kernel that copy, where those can
// be traced or probed. Most kernels are built so that they cannot: then the results
// of system calls are taken, which count bytes that were moved without a copy too.
// [Counts.CopySource] says which it is.
//
// Switches and wake-ups are counted by the tracepoints of the scheduler. A wake-up
// is charged to the process that runs on the core it comes from. That is wrong for
// interrupts: those of timers are told apart and counted as of [Other], those of
// devices are not. A message over the loopback device is delivered in the sender's
// context, so it counts as a wake-up by the sender.
//
// Page faults are counted by the kernel's own events for them, once they are
// resolved. A mapping is one of shuffled if its object is a memfd whose name begins
// with "shuffled-".
//
// # How to read time off the cores
//
// It is the sum over all threads, so a process with ten idle threads collects ten
// seconds a second. In Go programs almost all of it is idleness: threads without
// work wait for private futexes, one waits in epoll for descriptors and timers, and
// the monitor thread naps. What costs throughput shows as [OffFutexShared] (parked
// at a doorbell), [OffSocket] and [OffPipe] (blocked in a call), [OffPageFault] and
// [OffPreempted]. A goroutine that waits is not a thread that waits: for those there
// are the block profile and the execution trace of Go.
//
// A stay is counted when it ends: one that lasts when the counts are read is not in
// them, and all of one that began before is.
//
// # What it costs
//
// A watched process pays about a tenth of a microsecond for each system call,
// context switch, wake-up and page fault, any other process a third of that. Every
// call of probe.Publish and probe.Consume in [Options.Executable] traps into the
// kernel, sampled or not: a microsecond or two on bare metal and twenty or more in
// some virtual machines.
package bpf
