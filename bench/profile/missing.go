package profile

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"shuffled/bench/results"
)

// sentence says in a sentence why something is not measured, if the error is one of
// the usual ones; else it is the error's text. Errors of loading and attaching repeat
// the kernel's words for each way that was tried.
func sentence(err error) string {
	var reasons []string
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
		reasons = append(reasons, "the kernel or a security policy does not allow it")
	}
	if strings.Contains(err.Error(), "tracefs are mounted") {
		reasons = append(reasons, "tracefs is not mounted (mount -t tracefs tracefs /sys/kernel/tracing)")
	}
	if len(reasons) == 0 {
		return err.Error()
	}
	return strings.Join(reasons, ", and ")
}

// withoutSaid leaves out what was said to be missing, and notes what will be.
func withoutSaid(p *results.Profile, said map[string]bool) *results.Profile {
	rest := *p
	rest.Missing = nil
	for _, m := range p.Missing {
		if !said[m.What] {
			said[m.What] = true
			rest.Missing = append(rest.Missing, m)
		}
	}
	return &rest
}
