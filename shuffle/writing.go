package shuffle

import (
	"context"
	"errors"
	"fmt"

	"shuffled/internal/ctxerr"
	"shuffled/memseg"
)

// ClaimWriter makes the caller the one writer of the partition, for as long as it
// exists. Another one, or one that comes later, gets ErrConcurrentUse.
func (p *ResultPartition) ClaimWriter() error {
	if p.closing.Load() {
		return p.closedError()
	}
	if p.claimed.Swap(true) {
		return fmt.Errorf("partition %s: it has a writer already, and one goroutine writes a partition: %w", p.label(), ErrConcurrentUse)
	}
	return nil
}

// beginWrite starts a call of the writer's goroutine and keeps the region mapped
// until endWrite. A second one at the same time is ErrConcurrentUse, before it has
// touched anything.
func (p *ResultPartition) beginWrite() error {
	if !p.writing.TryLock() {
		if p.closing.Load() {
			return p.closedError()
		}
		return fmt.Errorf("partition %s: another goroutine is writing: %w", p.label(), ErrConcurrentUse)
	}
	if p.closed.Load() {
		p.writing.Unlock()
		return p.closedError()
	}
	return nil
}

// endWrite is deferred with the call's result.
func (p *ResultPartition) endWrite(err *error) {
	if p.begun != "" || *err != nil {
		p.endIfSpoilt(err)
	}
	p.writing.Unlock()
}

// errPanicked is why a record was cut if its call returned no error.
var errPanicked = errors.New("a panic")

// endIfSpoilt ends the partition if the call has left half a record or event
// behind, after which no reader would find the next one, or if memory of the
// partition has gone.
func (p *ResultPartition) endIfSpoilt(err *error) {
	cause := *err
	switch {
	case p.begun != "":
		if cause == nil {
			cause = errPanicked
		}
		cause = fmt.Errorf("partition %s: %s cut by: %w", p.label(), p.begun, cause)
		p.begun = ""
	case errors.Is(cause, memseg.ErrFault):
		*err = p.memoryLost(cause)
		return
	default:
		return
	}
	p.ended.CompareAndSwap(nil, &cause) // the caller is the only one to wait
	if *err != nil {
		*err = cause
	}
}

// memoryLost ends the partition for a fault of its memory.
func (p *ResultPartition) memoryLost(fault error) error {
	err := fmt.Errorf("partition %s: %w", p.label(), fault)
	p.ended.CompareAndSwap(nil, &err) // the caller is the only one to wait
	return err
}

// label names the partition in errors.
func (p *ResultPartition) label() string { return p.spec.Label() }

func (p *ResultPartition) closedError() error {
	return fmt.Errorf("partition %s: %w", p.label(), ErrClosed)
}

// checkContext returns why ctx has ended, or ErrInvalidArgument if there is none.
func (p *ResultPartition) checkContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("partition %s: the context is nil: %w", p.label(), ErrInvalidArgument)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("partition %s: %w", p.label(), ctxerr.Of(ctx))
	}
	return nil
}
