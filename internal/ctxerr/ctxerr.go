// Package ctxerr says why a call that honours a context has ended.
package ctxerr

import (
	"context"
	"fmt"

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
		return fmt.Errorf("%w: %w", err, sentinel.Foreign(cause))
	}
	return err
}
