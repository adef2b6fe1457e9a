package bench

import "syscall"

// spareDescriptors are for what a process needs besides what is counted.
const spareDescriptors = 128

// raiseDescriptorLimit raises the limit of open files of this process and of those
// that it will start, if it is below needed, as far as the process may. It returns
// the limit.
func raiseDescriptorLimit(needed uint64) uint64 {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) != nil || limit.Cur >= needed {
		return limit.Cur
	}
	for _, raised := range []syscall.Rlimit{
		{Cur: needed, Max: max(limit.Max, needed)}, // privileged
		{Cur: limit.Max, Max: limit.Max},
	} {
		// Not that of x/sys: the children of this process would get the limit that
		// it was started with.
		if syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised) == nil {
			return raised.Cur
		}
	}
	return limit.Cur
}
