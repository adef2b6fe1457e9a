package bench

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// A processUse is what a process takes of the machine, as of one look.
type processUse struct {
	// memory is resident and not shared memory of the shuffle, in bytes.
	memory  int64
	threads int
	files   int // open descriptors
}

// useOf looks at a process. Looking at one of another user takes privileges.
func useOf(pid int) (processUse, error) {
	names, err := descriptors(fmt.Sprintf("/proc/%d/fd", pid))
	if err != nil {
		return processUse{}, err
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return processUse{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	u, err := parseStatus(string(status))
	if err != nil {
		return processUse{}, fmt.Errorf("look at process %d: %w", pid, err)
	}
	u.files = len(names)
	return u, nil
}

// parseStatus reads the file status of a process.
func parseStatus(status string) (u processUse, err error) {
	fields := make(map[string]int64)
	for line := range strings.Lines(status) {
		name, value, _ := strings.Cut(line, ":")
		if n, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64); err == nil {
			fields[name] = n
		}
	}
	for _, name := range []string{"RssAnon", "RssFile", "Threads"} {
		if _, ok := fields[name]; !ok {
			return u, fmt.Errorf("its status has no %s", name)
		}
	}
	u.memory, u.threads = (fields["RssAnon"]+fields["RssFile"])<<10, int(fields["Threads"])
	return u, nil
}

// processorTimeOf returns the processor time, user and system, of another
// process's life.
func processorTimeOf(pid int) (time.Duration, error) {
	// The clock of a process, as clock_getcpuclockid(3) makes it.
	const scheduler = 2
	var ts unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|scheduler), &ts); err != nil {
		return 0, fmt.Errorf("read the processor time of process %d: %w", pid, err)
	}
	return time.Duration(ts.Nano()), nil
}
