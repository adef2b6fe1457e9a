package leaktest

import (
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/opened"
)

// openPoller has the runtime open the descriptors of its poller, which it does on first
// use.
var openPoller = sync.OnceFunc(func() {
	if r, w, err := os.Pipe(); err == nil {
		_ = r.Close()
		_ = w.Close()
	}
})

// A Set says what each descriptor refers to, by its number.
type Set map[string]string

// Descriptors returns the descriptors of this process.
func Descriptors() Set {
	openPoller()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	open := make(Set)
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil { // not that of the directory itself
			open[entry.Name()] = target
		}
	}
	return open
}

// Changes returns what has become of the descriptors since: +7 and a target for one that
// was opened, with the stack if it is known, -7 for one that was closed, both for one
// that was opened anew.
func (before Set) Changes() (changes []string) {
	now := Descriptors()
	for _, fd := range slices.Sorted(maps.Keys(before)) {
		if now[fd] != before[fd] {
			changes = append(changes, "-"+fd+" "+before[fd])
		}
	}
	for _, fd := range slices.Sorted(maps.Keys(now)) {
		if now[fd] != before[fd] {
			number, _ := strconv.Atoi(fd)
			change := "+" + fd + " " + now[fd]
			if stack := opened.DescriptorStack(number, now[fd]); stack != "" {
				change += "\n" + stack
			}
			changes = append(changes, change)
		}
	}
	return changes
}

// LeaveDescriptors lets this process open only so many descriptors more, until the returned
// function is called.
func LeaveDescriptors(t testing.TB, more uint64) (restore func()) {
	t.Helper()
	var limit unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &limit))
	first := 0 // of the numbers that are free and are not to be given out
	for range more + 1 {
		fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 0)
		require.NoError(t, err)
		defer unix.Close(fd)
		first = fd
	}
	require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(first), Max: limit.Max}))
	return func() { require.NoError(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &limit)) }
}
