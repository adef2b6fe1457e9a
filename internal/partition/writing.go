package partition

import (
	"context"
	"errors"
	"fmt"

	"shuffled/internal/ctxerr"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// ClaimWriter makes the caller the one writer of the partition, for as long as it
// exists. Another one, or one that comes later, gets ErrConcurrentUse.
func (p *ResultPartition) ClaimWriter() error {
	if err := p.check(); err != nil {
		return err
	}
	if p.closing.Load() {
		return p.closedError()
	}
	if p.claimed.Swap(true) {
		return fmt.Errorf("partition %s: it has a writer already, and one goroutine writes a partition: %w", p.label(),
			shuffle.ErrConcurrentUse)
	}
	return nil
}

// beginWrite starts a call of the writer's goroutine and keeps the region mapped
// until endWrite. A second one at the same time is ErrConcurrentUse, before it has
// touched anything, also if it is the first one that is filling a buffer.
func (p *ResultPartition) beginWrite() error {
	if err := p.check(); err != nil {
		return err
	}
	if !p.writing.TryLock() {
		if p.closing.Load() {
			return p.closedError()
		}
		return p.concurrentUse()
	}
	if p.closed.Load() {
		p.writing.Unlock()
		return p.closedError()
	}
	if me := memseg.ThisGoroutine(); me != p.writer && !p.takeOver(me) {
		p.writing.Unlock()
		return p.concurrentUse()
	}
	return nil
}

// takeOver makes another goroutine the writer. One that was let into buffers to fill
// them without a lock goes the long way from now on; if it is filling one at the
// moment, takeOver reports false and everything is as before.
//
// Until the next buffer nobody is let in again: goroutines that take turns would have
// to stop each other for each record.
func (p *ResultPartition) takeOver(me memseg.Goroutine) bool {
	if len(p.handedOut) > 0 {
		var builders []*memseg.BufferBuilder
		for _, s := range p.handedOut {
			builders = append(builders, s.builder)
		}
		limits, ok := memseg.TakeFrom(builders)
		if !ok {
			return false
		}
		for i, s := range p.handedOut {
			s.replaceBuilder(limits[i])
		}
		p.handedOut = p.handedOut[:0]
	}
	p.writer = me
	return true
}

// letIn lets the writer's goroutine into a subpartition's open buffer.
func (p *ResultPartition) letIn(s *ResultSubpartition, at memseg.Place) {
	s.builder.LetIn(at)
	if !s.handedOut {
		s.handedOut = true
		p.handedOut = append(p.handedOut, s)
	}
}

func (p *ResultPartition) concurrentUse() error {
	return fmt.Errorf("partition %s: another goroutine is writing: %w", p.label(), shuffle.ErrConcurrentUse)
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
	return fmt.Errorf("partition %s: %w", p.label(), shuffle.ErrClosed)
}

// checkContext returns why ctx has ended, or ErrInvalidArgument if there is none.
func (p *ResultPartition) checkContext(ctx context.Context) error {
	if ctx == nil {
		return fmt.Errorf("partition %s: the context is nil: %w", p.label(), shuffle.ErrInvalidArgument)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("partition %s: %w", p.label(), ctxerr.Of(ctx))
	}
	return nil
}
