// Package probe marks the two ends of a buffer's way, for tools that look on from
// outside: package bpf attaches to its functions by their names and measures the
// time from [Publish] to [Consume]. They do nothing by themselves.
//
// The region and the ordinal name a buffer. They must be the same in both
// processes, so no address or descriptor will do, but an inode will, or an id that
// the processes agree on. The functions take integers only, which the
// calling convention of Go passes in registers.
//
// A caller may mark some buffers only, if it chooses them by their ordinals, so that
// both ends choose the same.
package probe
