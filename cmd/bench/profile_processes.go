package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"shuffled/bench"
	"shuffled/bench/profile"
	"shuffled/internal/cli"
)

// parseProcesses reads a list such as "123,producer=456". A number alone is a
// worker.
func parseProcesses(list string) (processes []bench.Process, err error) {
	roles := []bench.Role{bench.Producer, bench.Consumer, bench.Daemon, profile.Worker}
	for field := range strings.SplitSeq(list, ",") {
		role, number, named := strings.Cut(strings.TrimSpace(field), "=")
		if !named {
			role, number = string(profile.Worker), role
		}
		if !slices.Contains(roles, bench.Role(role)) {
			return nil, cli.Usagef("--pid: %q: want producer=, consumer= or daemon= before the number of a process, or nothing", field)
		}
		pid, err := strconv.Atoi(number)
		if err != nil || pid < 1 || pid > math.MaxInt32 {
			return nil, cli.Usagef("--pid: %q: want the number of a process", field)
		}
		if slices.ContainsFunc(processes, func(p bench.Process) bool { return p.PID == pid }) {
			return nil, cli.Usagef("--pid: process %d is given twice", pid)
		}
		processes = append(processes, bench.Process{PID: pid, Role: bench.Role(role)})
	}
	if err := profile.CheckRoles(processes); err != nil {
		return nil, cli.Usagef("--pid: %v", err)
	}
	return processes, nil
}

// processProgram returns the program that a process runs.
func processProgram(p bench.Process) string {
	return filepath.Join("/proc", strconv.Itoa(p.PID), "exe")
}

// watch profiles processes that run already.
func watch(ctx context.Context, options profile.Options, processes []bench.Process, d time.Duration, path string,
	stdout io.Writer) error {
	var file *pendingFile
	if path != "" {
		var err error
		if file, err = createPending(path, "json"); err != nil {
			return err
		}
		defer file.discard()
	}
	f, err := profile.Watch(ctx, options, processes, d, func() {
		var names []string
		for _, p := range processes {
			names = append(names, fmt.Sprintf("%s %d", p.Role, p.PID))
		}
		fmt.Fprintf(stdout, "watching for %v: %s\n", d, strings.Join(names, ", "))
	})
	if f == nil {
		return err
	}
	if file != nil {
		if writeErr := file.commit(f.WriteJSON); writeErr != nil {
			return errors.Join(err, writeErr)
		}
		fmt.Fprintf(stdout, "results: %s\n", path)
	}
	return errors.Join(err, showProfiles(f, stdout))
}
