package main

import (
	"fmt"

	"shuffled/memseg"
)

// A degradation is something that this host lacks and without which the daemon
// does less than it could. None is silent: each has a log line and a metric.
type degradation struct {
	reason string // label of the metric
	detail string
	active bool
}

// fewDescriptors is the number of descriptors below which the limits of the daemon are out
// of reach.
const fewDescriptors = 1024

// probeDegradations looks for all kinds once.
func probeDegradations(o *serveOptions, descriptors uint64) []degradation {
	return []degradation{
		{"no_noexec_seal",
			"the kernel has no MFD_NOEXEC_SEAL (Linux 6.3): shared objects are not sealed against execution",
			!memseg.SupportsNoExecSeal()},
		{"no_futex_waitv",
			"the kernel has no futex_waitv (Linux 5.16), or a seccomp profile forbids it: of more than sixteen sleeping gates or writers of a process " +
				"one goroutine looks after the rest, later and with more processor time; workers with another profile are not known here",
			!memseg.SupportsFutexWaitMany()},
		{"no_huge_pages",
			"the kernel does not say how large a huge page is (/sys/kernel/mm/transparent_hugepage): small pages are used, which is slower",
			o.hugePages == "auto" && memseg.HugePageSize() == 0},
		{"no_leases",
			"the kernel gives no leases on shared objects (/proc/sys/fs/leases-enable is 0, a seccomp profile or a sandbox forbids them): nobody can tell who " +
				"still has mapped what was given up, so that it counts as given back after five seconds, and processes that keep it may take the host beyond --memory",
			!memseg.TellsHolders()},
		{"few_descriptors",
			fmt.Sprintf("RLIMIT_NOFILE is %d, so there can be about %d partitions and gates: raise the hard limit (systemd: LimitNOFILE=)",
				descriptors, descriptors/2), descriptors < fewDescriptors},
		{"memory_limit_unknown",
			"neither a cgroup nor /proc/meminfo says how much memory there is: --memory is not checked against it",
			o.budget.limit == 0 && o.budget.machine == 0},
	}
}
