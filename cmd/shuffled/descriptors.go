package main

import (
	"fmt"

	"golang.org/x/sys/unix"

	"shuffled/internal/daemon"
)

// raiseDescriptorLimit raises the soft limit of open files to the hard one and
// returns it: a partition takes two descriptors, and so does a gate.
func raiseDescriptorLimit() (uint64, error) { return raiseLimit(unix.RLIMIT_NOFILE, "RLIMIT_NOFILE") }

// raiseFileSizeLimit raises the soft limit of the size of files, which the kernel
// applies to shared objects too.
func raiseFileSizeLimit() error {
	_, err := raiseLimit(unix.RLIMIT_FSIZE, "RLIMIT_FSIZE")
	return err
}

func raiseLimit(resource int, name string) (uint64, error) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(resource, &limit); err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	if limit.Cur == limit.Max {
		return limit.Cur, nil
	}
	raised := unix.Rlimit{Cur: limit.Max, Max: limit.Max}
	if err := unix.Setrlimit(resource, &raised); err != nil {
		return limit.Cur, fmt.Errorf("raise %s from %d to %d: %w", name, limit.Cur, limit.Max, err)
	}
	return limit.Max, nil
}

// reservedDescriptors are kept for what is no client's: HTTP connections, files of
// the daemon, descriptors on their way to a client, and clients that are refused.
const reservedDescriptors = maxAdminConnections + daemon.RefusalDescriptors + 64

// clientDescriptors returns how many of all descriptors clients may take.
func clientDescriptors(all uint64) int {
	return int(min(max(all-min(all, reservedDescriptors), all/2), maxCount))
}
