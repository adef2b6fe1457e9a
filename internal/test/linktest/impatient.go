package linktest

import (
	"context"
	"sync"
	"time"
)

// Impatient returns a context that ends as soon as somebody waits for its end, so
// that a call with it succeeds without waiting or returns context.Canceled. It
// serves one call.
func Impatient() context.Context { return &impatient{done: make(chan struct{})} }

type impatient struct {
	once sync.Once
	done chan struct{}
}

func (c *impatient) Deadline() (time.Time, bool) { return time.Time{}, false }

func (c *impatient) Value(any) any { return nil }

func (c *impatient) Done() <-chan struct{} {
	c.once.Do(func() { close(c.done) })
	return c.done
}

func (c *impatient) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}
