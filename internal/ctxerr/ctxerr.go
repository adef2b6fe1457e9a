// Package ctxerr says why a call that honours a context has ended.
package ctxerr

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"shuffled/internal/sentinel"
)

// Of returns nil while ctx has not ended, and then an error that is ctx.Err() and
// names the cause, if there is another. errors.Is and errors.As find what the cause
// wraps too, but no sentinel of this module and no io.EOF: those are how a stream
// has ended, and a cause that came from another stream says nothing of this one.
func Of(ctx context.Context) error {
	err := ctx.Err()
	if err == nil {
		return nil
	}
	if cause := context.Cause(ctx); cause != err {
		return &ended{err, cause}
	}
	return err
}

// ended is the error of a context with a cause. The cause is not in the chain that
// Unwrap gives, so that Is and As below decide what is found of it.
type ended struct{ err, cause error }

func (e *ended) Error() string { return fmt.Sprintf("%v: %v", e.err, e.cause) }

func (e *ended) Unwrap() error { return e.err }

func (e *ended) Is(target error) bool {
	return !sentinel.IsOwn(target) && errors.Is(e.cause, target)
}

func (e *ended) As(target any) bool {
	wanted := reflect.TypeOf(target).Elem()
	if wanted.Kind() == reflect.Pointer {
		wanted = wanted.Elem()
	}
	return !strings.HasPrefix(wanted.PkgPath(), "shuffled/") && errors.As(e.cause, target)
}
