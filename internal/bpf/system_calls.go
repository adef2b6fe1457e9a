package bpf

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// SyscallNumbers is the number of system calls that are told apart.
const SyscallNumbers = 512

// SyscallCounts count system calls by their number on this architecture, which
// [SyscallName] names. The last one stands for its number and all greater ones.
type SyscallCounts [SyscallNumbers]uint64

// Total returns the number of calls.
func (c *SyscallCounts) Total() uint64 {
	var n uint64
	for _, calls := range c {
		n += calls
	}
	return n
}

// Of returns the number of calls of one number, such as unix.SYS_WRITE.
func (c *SyscallCounts) Of(number int) uint64 {
	if number < 0 || number >= len(c) {
		return 0
	}
	return c[number]
}

func (c SyscallCounts) sub(earlier SyscallCounts) SyscallCounts {
	for i := range c {
		c[i] = rise(c[i], earlier[i])
	}
	return c
}

// SyscallName returns the name of a system call of this architecture if it is one
// that programs which exchange data make, and "syscall 123" otherwise.
func SyscallName(number int) string {
	for _, calls := range [][]systemCall{systemCalls, systemCallsOfArchitecture} {
		for _, call := range calls {
			if call.number == number {
				return call.name
			}
		}
	}
	return fmt.Sprintf("syscall %d", number)
}

// A callKind is what a system call does: CALL_ in programs/syscalls.h.
type callKind uint8

const (
	plain callKind = iota
	reads
	writes
	splices
	peeks
	pokes
	futex
	futexWaitv
	futexWait
	futexWake
	futexRequeue
)

// Reasons that are told from the arguments: OFF_BY_ in programs/state.h.
const (
	byFutex OffCPUReason = 64 + iota
	byChannel
)

// A systemCall is what the programs have to know of a system call.
type systemCall struct {
	number int
	name   string
	kind   callKind
	reason OffCPUReason // of a thread that leaves its core in it
}

// systemCalls have the same names on every architecture.
var systemCalls = []systemCall{
	{unix.SYS_READ, "read", reads, byChannel},
	{unix.SYS_READV, "readv", reads, byChannel},
	{unix.SYS_PREAD64, "pread64", reads, byChannel},
	{unix.SYS_PREADV, "preadv", reads, byChannel},
	{unix.SYS_PREADV2, "preadv2", reads, byChannel},
	{unix.SYS_WRITE, "write", writes, byChannel},
	{unix.SYS_WRITEV, "writev", writes, byChannel},
	{unix.SYS_PWRITE64, "pwrite64", writes, byChannel},
	{unix.SYS_PWRITEV, "pwritev", writes, byChannel},
	{unix.SYS_PWRITEV2, "pwritev2", writes, byChannel},
	{unix.SYS_PROCESS_VM_READV, "process_vm_readv", peeks, OffOther},
	{unix.SYS_PROCESS_VM_WRITEV, "process_vm_writev", pokes, OffOther},

	{unix.SYS_RECVFROM, "recvfrom", reads, OffSocket},
	{unix.SYS_RECVMSG, "recvmsg", reads, OffSocket},
	{unix.SYS_RECVMMSG, "recvmmsg", plain, OffSocket},
	{unix.SYS_SENDTO, "sendto", writes, OffSocket},
	{unix.SYS_SENDMSG, "sendmsg", writes, OffSocket},
	{unix.SYS_SENDMMSG, "sendmmsg", plain, OffSocket},
	{unix.SYS_ACCEPT, "accept", plain, OffSocket},
	{unix.SYS_ACCEPT4, "accept4", plain, OffSocket},
	{unix.SYS_CONNECT, "connect", plain, OffSocket},
	{unix.SYS_SOCKET, "socket", plain, OffOther},
	{unix.SYS_SOCKETPAIR, "socketpair", plain, OffOther},
	{unix.SYS_BIND, "bind", plain, OffOther},
	{unix.SYS_LISTEN, "listen", plain, OffOther},
	{unix.SYS_SHUTDOWN, "shutdown", plain, OffOther},
	{unix.SYS_GETSOCKOPT, "getsockopt", plain, OffOther},
	{unix.SYS_SETSOCKOPT, "setsockopt", plain, OffOther},

	{unix.SYS_SENDFILE, "sendfile", splices, byChannel},
	{unix.SYS_SPLICE, "splice", splices, byChannel},
	{unix.SYS_TEE, "tee", splices, byChannel},
	{unix.SYS_VMSPLICE, "vmsplice", splices, byChannel},
	{unix.SYS_COPY_FILE_RANGE, "copy_file_range", splices, OffOther},

	{unix.SYS_FUTEX, "futex", futex, byFutex},
	{unix.SYS_FUTEX_WAITV, "futex_waitv", futexWaitv, byFutex},
	{unix.SYS_FUTEX_WAIT, "futex_wait", futexWait, byFutex},
	{unix.SYS_FUTEX_WAKE, "futex_wake", futexWake, byFutex},
	{unix.SYS_FUTEX_REQUEUE, "futex_requeue", futexRequeue, byFutex},

	{unix.SYS_EPOLL_PWAIT, "epoll_pwait", plain, OffEpoll},
	{unix.SYS_EPOLL_PWAIT2, "epoll_pwait2", plain, OffEpoll},
	{unix.SYS_PPOLL, "ppoll", plain, OffEpoll},
	{unix.SYS_PSELECT6, "pselect6", plain, OffEpoll},
	{unix.SYS_EPOLL_CTL, "epoll_ctl", plain, OffOther},
	{unix.SYS_EPOLL_CREATE1, "epoll_create1", plain, OffOther},
	{unix.SYS_IO_URING_ENTER, "io_uring_enter", plain, OffOther},

	{unix.SYS_NANOSLEEP, "nanosleep", plain, OffNanosleep},
	{unix.SYS_CLOCK_NANOSLEEP, "clock_nanosleep", plain, OffNanosleep},
	{unix.SYS_SCHED_YIELD, "sched_yield", plain, OffYield},

	{unix.SYS_MMAP, "mmap", plain, OffOther},
	{unix.SYS_MUNMAP, "munmap", plain, OffOther},
	{unix.SYS_MPROTECT, "mprotect", plain, OffOther},
	{unix.SYS_MADVISE, "madvise", plain, OffOther},
	{unix.SYS_MREMAP, "mremap", plain, OffOther},
	{unix.SYS_BRK, "brk", plain, OffOther},
	{unix.SYS_MEMFD_CREATE, "memfd_create", plain, OffOther},
	{unix.SYS_FALLOCATE, "fallocate", plain, OffOther},
	{unix.SYS_FTRUNCATE, "ftruncate", plain, OffOther},
	{unix.SYS_MEMBARRIER, "membarrier", plain, OffOther},

	{unix.SYS_OPENAT, "openat", plain, OffOther},
	{unix.SYS_CLOSE, "close", plain, OffOther},
	{unix.SYS_FSTAT, "fstat", plain, OffOther},
	{unix.SYS_NEWFSTATAT, "newfstatat", plain, OffOther},
	{unix.SYS_LSEEK, "lseek", plain, OffOther},
	{unix.SYS_FSYNC, "fsync", plain, OffOther},
	{unix.SYS_FCNTL, "fcntl", plain, OffOther},
	{unix.SYS_IOCTL, "ioctl", plain, OffOther},
	{unix.SYS_DUP3, "dup3", plain, OffOther},
	{unix.SYS_PIPE2, "pipe2", plain, OffOther},
	{unix.SYS_EVENTFD2, "eventfd2", plain, OffOther},

	{unix.SYS_CLONE, "clone", plain, OffOther},
	{unix.SYS_CLONE3, "clone3", plain, OffOther},
	{unix.SYS_EXECVE, "execve", plain, OffOther},
	{unix.SYS_EXIT, "exit", plain, OffOther},
	{unix.SYS_EXIT_GROUP, "exit_group", plain, OffOther},
	{unix.SYS_WAIT4, "wait4", plain, OffOther},
	{unix.SYS_WAITID, "waitid", plain, OffOther},
	{unix.SYS_GETPID, "getpid", plain, OffOther},
	{unix.SYS_GETTID, "gettid", plain, OffOther},
	{unix.SYS_TGKILL, "tgkill", plain, OffOther},
	{unix.SYS_RT_SIGACTION, "rt_sigaction", plain, OffOther},
	{unix.SYS_RT_SIGPROCMASK, "rt_sigprocmask", plain, OffOther},
	{unix.SYS_RT_SIGRETURN, "rt_sigreturn", plain, OffOther},
	{unix.SYS_SIGALTSTACK, "sigaltstack", plain, OffOther},
	{unix.SYS_RESTART_SYSCALL, "restart_syscall", plain, OffOther},
	{unix.SYS_SCHED_GETAFFINITY, "sched_getaffinity", plain, OffOther},
	{unix.SYS_SCHED_SETAFFINITY, "sched_setaffinity", plain, OffOther},
	{unix.SYS_TIMER_CREATE, "timer_create", plain, OffOther},
	{unix.SYS_TIMER_SETTIME, "timer_settime", plain, OffOther},
	{unix.SYS_TIMER_DELETE, "timer_delete", plain, OffOther},
	{unix.SYS_CLOCK_GETTIME, "clock_gettime", plain, OffOther},
	{unix.SYS_GETRUSAGE, "getrusage", plain, OffOther},
	{unix.SYS_GETRANDOM, "getrandom", plain, OffOther},
	{unix.SYS_PRCTL, "prctl", plain, OffOther},
}

// callTables return what the programs look up by the number of a call.
func callTables() (kinds, reasons [SyscallNumbers]uint8) {
	for i := range reasons {
		reasons[i] = uint8(OffOther)
	}
	for _, calls := range [][]systemCall{systemCalls, systemCallsOfArchitecture} {
		for _, call := range calls {
			kinds[call.number], reasons[call.number] = uint8(call.kind), uint8(call.reason)
		}
	}
	return kinds, reasons
}
