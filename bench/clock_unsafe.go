package bench

import (
	"time"
	_ "unsafe" // for go:linkname
)

// nanotime is the monotonic clock of the machine, read without a system call.
//
//go:linkname nanotime runtime.nanotime
func nanotime() int64

// now is monotonicNow for loops that take the time of each record.
func now() time.Duration { return time.Duration(nanotime()) }
