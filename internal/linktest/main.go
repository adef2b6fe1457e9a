package linktest

import (
	"fmt"
	"maps"
	"os"
	"slices"

	"go.uber.org/goleak"

	"shuffled/memseg"
)

// Main runs the tests of a package and fails it if goroutines, mappings or
// descriptors are left at the end.
func Main(m goleak.TestingM) {
	if r, w, err := os.Pipe(); err == nil { // the runtime opens its poller on first use
		_ = r.Close()
		_ = w.Close()
	}
	mappings, descriptors := memseg.LiveMappings(), openDescriptors()
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if code == 0 {
			code = reportLeft(memseg.LiveMappings()-mappings, opened(descriptors, openDescriptors()))
		}
		os.Exit(code)
	}))
}

// reportLeft prints what is left and returns the exit code that this means.
func reportLeft(mappings int64, descriptors []string) (code int) {
	if mappings != 0 {
		fmt.Fprintf(os.Stderr, "%d mappings are left\n", mappings)
		code = 1
	}
	if len(descriptors) > 0 {
		fmt.Fprintf(os.Stderr, "descriptors are left: %q\n", descriptors)
		code = 1
	}
	return code
}

// openDescriptors returns what each descriptor of this process refers to.
func openDescriptors() map[string]string {
	open := make(map[string]string)
	entries, _ := os.ReadDir("/proc/self/fd")
	for _, entry := range entries {
		if target, err := os.Readlink("/proc/self/fd/" + entry.Name()); err == nil { // not that of the directory itself
			open[entry.Name()] = target
		}
	}
	return open
}

// opened returns those that there are now and were not before.
func opened(before, now map[string]string) (left []string) {
	for _, fd := range slices.Sorted(maps.Keys(now)) {
		if before[fd] != now[fd] {
			left = append(left, fd+" "+now[fd])
		}
	}
	return left
}
