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
		{"no_noexec_seal", "the kernel has no MFD_NOEXEC_SEAL (Linux 6.3): shared objects are not sealed against execution",
			!memseg.SupportsNoExecSeal()},
		{"few_descriptors", fmt.Sprintf("RLIMIT_NOFILE is %d, so there can be about %d partitions and gates: raise the hard limit (systemd: LimitNOFILE=)",
			descriptors, descriptors/2), descriptors < fewDescriptors},
		{"memory_limit_unknown", "neither a cgroup nor /proc/meminfo says how much memory there is: -memory is not checked against it",
			o.budget.limit == 0 && o.budget.machine == 0},
	}
}
