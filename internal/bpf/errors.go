package bpf

import "errors"

var (
	// ErrUnsupported is returned by Open where the kernel, or what this process may
	// do, does not allow tracing. The error says what is missing.
	ErrUnsupported = errors.New("tracing is not supported")
	// ErrClosed is returned by any call after Close.
	ErrClosed = errors.New("tracer closed")
	// ErrNoProcess is returned when the process to be watched does not exist.
	ErrNoProcess = errors.New("no such process")
	// ErrRole is returned for a role that no process can be watched as.
	ErrRole = errors.New("not a role to watch")
	// ErrTooManyWatched is returned when MaxWatched processes are watched.
	ErrTooManyWatched = errors.New("too many watched processes")
)
