package main

import (
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A refusedCall is a system call that a seccomp filter answers with an error.
type refusedCall struct {
	number uintptr
	errno  unix.Errno
	// With, if set, limits it to calls whose argument of that index has that value.
	with *argument
}

type argument struct {
	index int
	value uint32
}

// refuseCalls installs a filter for all threads of this process, and for what it
// executes.
func refuseCalls(calls ...refusedCall) error {
	const number, firstArgument = 0, 16 // in struct seccomp_data
	load := func(offset uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
	}
	skipUnless := func(value uint32, skip uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: skip, K: value}
	}
	answer := func(value uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value} }

	program := []unix.SockFilter{load(number)}
	for _, c := range calls {
		refuse := answer(unix.SECCOMP_RET_ERRNO | uint32(c.errno))
		if c.with == nil {
			program = append(program, skipUnless(uint32(c.number), 1), refuse)
			continue
		}
		program = append(program, skipUnless(uint32(c.number), 4), load(firstArgument+8*uint32(c.with.index)),
			skipUnless(c.with.value, 1), refuse, load(number))
	}
	program = append(program, answer(unix.SECCOMP_RET_ALLOW))
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}

	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&filter)))
	if errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return nil
}
