package daemon

import (
	"errors"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"shuffled/shuffle"
)

// A limitError is a refusal because of a limit, with its name for the statistics.
type limitError struct {
	error
	limit string
}

func atLimit(limit string, err error) error {
	limit = strings.TrimPrefix(limit, "--") // of the flag
	if limit == "RLIMIT_NOFILE" {
		limit = limitDescriptors
	}
	return &limitError{err, limit}
}

func (e *limitError) Unwrap() error { return e.error }

// Limits that are set by no flag; otherLimit counts refusals because of those that
// have no name in limitNames.
const (
	limitDescriptors = "descriptors"
	limitFileSize    = "file-size"
	otherLimit       = "other"
)

// limitNames are the limits that refusals are counted by, by the names of their flags.
var limitNames = []string{
	"max-connections", "max-connections-per-uid", "max-partitions", "max-partitions-per-uid", "max-gates",
	"max-gates-per-uid",
	"max-inputs-per-gate", "max-control-memory", "max-heap-memory", "max-memory-per-uid", "memory",
	limitDescriptors, limitFileSize, otherLimit,
}

// LimitNames returns the keys that Snapshot.LimitRejects can have.
func LimitNames() []string { return slices.Clone(limitNames) }

// limitOf names the limit because of which a client was refused; "" if there is none.
func limitOf(err error) string {
	var at *limitError
	switch {
	case errors.As(err, &at) && slices.Contains(limitNames, at.limit):
		return at.limit
	case errors.Is(err, unix.EMFILE):
		return limitDescriptors
	case errors.Is(err, unix.EFBIG):
		return limitFileSize
	case errors.Is(err, shuffle.ErrInsufficientBuffers):
		return "memory"
	case errors.Is(err, shuffle.ErrQuotaExceeded):
		return otherLimit
	}
	return ""
}
