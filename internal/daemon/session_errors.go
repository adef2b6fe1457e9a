package daemon

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"shuffled/shuffle"
)

// A FieldError says which field of a message was refused.
type FieldError struct {
	Field string // as in control.proto, with the message before it
	Got   any
	Want  string // range or limit
	// Kind is shuffle.ErrProtocol or shuffle.ErrInvalidArgument. The first ends
	// the session.
	Kind error
}

func fieldError(field string, got any, want string, kind error) error {
	return &FieldError{Field: field, Got: got, Want: want, Kind: kind}
}

// Error names field, value and limit.
func (e *FieldError) Error() string {
	return fmt.Sprintf("%s: got %v, want %s: %v", e.Field, e.Got, e.Want, e.Kind)
}

// Unwrap returns Kind.
func (e *FieldError) Unwrap() error { return e.Kind }

// describeShortage gives errors of the kernel about descriptors and memory the
// sentinel that they stand for.
func describeShortage(err error) error {
	switch {
	case errors.Is(err, shuffle.ErrQuotaExceeded):
		return err
	case errors.Is(err, unix.EMFILE):
		return fmt.Errorf("limit RLIMIT_NOFILE of the daemon: %w: %w", err, shuffle.ErrQuotaExceeded)
	case errors.Is(err, unix.ENFILE):
		return fmt.Errorf("limit fs.file-max of the host: %w: %w", err, shuffle.ErrQuotaExceeded)
	case errors.Is(err, unix.EFBIG):
		return fmt.Errorf("limit RLIMIT_FSIZE of the daemon: %w: %w", err, shuffle.ErrQuotaExceeded)
	case errors.Is(err, shuffle.ErrNoMemory): // memory that the kernel does not back, but for the reasons above
		return err
	case errors.Is(err, unix.ENOMEM):
		return fmt.Errorf("%w: %w", err, shuffle.ErrNoMemory)
	}
	return err
}
