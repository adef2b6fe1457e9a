package daemon

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// hasEnded reports whether a process is known to have ended. A pid that this
// process cannot see is not; one that was given away again only seems to live.
func hasEnded(pid int32) bool {
	if pid <= 0 {
		return false
	}
	fd, err := unix.PidfdOpen(int(pid), 0)
	if err != nil {
		return errors.Is(err, unix.ESRCH)
	}
	defer func() { _ = unix.Close(fd) }()
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n == 1
}

// A sharedMapping is a line of /proc/PID/maps or smaps about a memfd.
type sharedMapping struct {
	span  string // its addresses, as the kernel writes them
	inode uint64
	name  string // after "memfd:", without " (deleted)"
}

// parseMapping reads the first line of a mapping. Lines about anything but memfds
// are not ok.
func parseMapping(line string) (m sharedMapping, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 6 || !strings.Contains(fields[0], "-") || !strings.HasPrefix(fields[5], "/memfd:") {
		return m, false
	}
	inode, err := strconv.ParseUint(fields[4], 10, 64)
	return sharedMapping{fields[0], inode, strings.TrimPrefix(fields[5], "/memfd:")}, err == nil
}

// residentBytes returns how much of an object of this daemon lies in the page tables
// of a process, if the kernel tells.
func residentBytes(pid int32, inode uint64) (bytes int64, ok bool) {
	found := false
	err := eachMapping(int(pid), func(m sharedMapping, resident int64) {
		if m.inode == inode {
			found = true
			bytes = max(bytes, resident)
		}
	})
	return bytes, err == nil && found
}

// eachMapping calls f for each memfd that a process has mapped, with how much of it
// is in its page tables.
func eachMapping(pid int, f func(m sharedMapping, resident int64)) error {
	file, err := os.Open(fmt.Sprintf("/proc/%d/smaps", pid))
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	var (
		mapping sharedMapping
		isOurs  bool
	)
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		line := lines.Text()
		key, rest, _ := strings.Cut(line, ":")
		switch {
		case isOurs && key == "Rss":
			kb, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				f(mapping, kb<<10)
			}
			isOurs = false
		case strings.Contains(key, "-"): // addresses
			mapping, isOurs = parseMapping(line)
		}
	}
	return lines.Err()
}
