// Package profile tells what the kernel does for the processes of a workload:
// bytes copied, system calls, wake-ups and who causes them, time without a core,
// page faults.
//
// A [Profiler] is the [bench.Observer] of a workload. [Watch] looks at processes
// that somebody else started. Both put a [results.Profile] into a results file,
// which [Describe] lays out for people and [Limits] compares with what is allowed.
//
// The counting is done by eBPF programs, package internal/bpf. Where they cannot
// be loaded, the files of /proc tell some of the same figures; those that they do
// not tell are absent, never zero.
package profile
