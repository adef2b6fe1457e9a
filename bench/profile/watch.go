package profile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/bench"
	"shuffled/bench/results"
)

// lookInterval is how often processes are looked at that may end at any time.
const lookInterval = 50 * time.Millisecond

// Watch profiles processes that somebody else started, for a time, and calls begun
// when that begins. A process that ends earlier is noted in the profile, and when
// all have ended, Watch returns. If ctx ends first, it returns what was seen so
// far, marked as partial, and the cause.
func Watch(ctx context.Context, o Options, processes []bench.Process, d time.Duration, begun func()) (*results.File,
	error) {
	s, err := o.source()
	if err != nil {
		return nil, err
	}
	return watch(ctx, s, processes, d, begun)
}

func watch(ctx context.Context, s source, processes []bench.Process, d time.Duration, begun func()) (*results.File,
	error) {
	var all []*living
	defer func() {
		for _, l := range all {
			_ = unix.Close(l.fd)
		}
	}()
	for _, p := range processes {
		fd, err := unix.PidfdOpen(p.PID, 0)
		if err != nil {
			return nil, notAProcess(p.PID, err)
		}
		all = append(all, &living{Process: p, fd: fd})
	}
	defer s.close()
	if err := s.begin(processes); err != nil {
		return nil, err
	}
	begun()
	notes, stopped := waitFor(ctx, s, all, d)
	seen, err := s.end()
	if err != nil {
		return nil, err
	}
	seen.Notes = append(seen.Notes, notes...)
	f := results.New("profile")
	f.Add(results.Settings{Transport: "processes"}, results.Round{}).Profile = seen
	return f.End(stopped)
}

// living is a process that has not ended yet.
type living struct {
	bench.Process
	fd int // readable once it has ended
}

// notAProcess says why there is no descriptor of a process.
func notAProcess(pid int, err error) error {
	switch {
	case errors.Is(err, unix.ESRCH):
		return fmt.Errorf("there is no process %d: it may have ended", pid)
	case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOENT):
		return fmt.Errorf("%d is a thread: give its process, Tgid in /proc/%d/status", pid, pid)
	}
	return fmt.Errorf("open process %d: %w", pid, err)
}

// waitFor looks at processes until the time is over, all have ended, or ctx ends,
// which is the error. It notes those that ended.
func waitFor(ctx context.Context, s source, all []*living, d time.Duration) (notes []string, err error) {
	begun := time.Now()
	over := time.NewTimer(d)
	defer over.Stop()
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		s.look()
		all = slices.DeleteFunc(slices.Clone(all), func(l *living) bool {
			ended := hasEnded(l.fd)
			if ended {
				s.forget(l.Process)
				notes = append(notes, fmt.Sprintf("%s %d ended after %.1f s", l.Role, l.PID,
					time.Since(begun).Seconds()))
			}
			return ended
		})
		if len(all) == 0 {
			return notes, nil
		}
		select {
		case <-ctx.Done():
			return notes, context.Cause(ctx)
		case <-over.C:
			return notes, nil
		case <-ticker.C:
		}
	}
}

func hasEnded(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n > 0
}
