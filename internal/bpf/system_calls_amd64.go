package bpf

import "golang.org/x/sys/unix"

// systemCallsOfArchitecture are older forms that this architecture has kept.
var systemCallsOfArchitecture = []systemCall{
	{unix.SYS_EPOLL_WAIT, "epoll_wait", plain, OffEpoll},
	{unix.SYS_POLL, "poll", plain, OffEpoll},
	{unix.SYS_SELECT, "select", plain, OffEpoll},
	{unix.SYS_PAUSE, "pause", plain, OffOther},
	{unix.SYS_OPEN, "open", plain, OffOther},
	{unix.SYS_STAT, "stat", plain, OffOther},
	{unix.SYS_LSTAT, "lstat", plain, OffOther},
	{unix.SYS_PIPE, "pipe", plain, OffOther},
	{unix.SYS_DUP2, "dup2", plain, OffOther},
	{unix.SYS_FORK, "fork", plain, OffOther},
	{unix.SYS_VFORK, "vfork", plain, OffOther},
	{unix.SYS_ARCH_PRCTL, "arch_prctl", plain, OffOther},
}
