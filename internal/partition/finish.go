package partition

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"shuffled/internal/absent"
	"shuffled/internal/sentinel"
	"shuffled/internal/standstill"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// Finish implements shuffle.ResultPartition.
func (p *ResultPartition) Finish(ctx context.Context) (err error) {
	if err := p.beginWrite(); err != nil {
		return err
	}
	defer p.endWrite(&err)
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "finish", &err)
	if p.finished {
		return fmt.Errorf("partition %s: %w", p.label(), shuffle.ErrFinished)
	}
	if !p.published.Load() {
		if err := p.publishEnd(ctx); err != nil {
			return err
		}
	} else if err := p.checkContext(ctx); err != nil {
		return fmt.Errorf("finish: %w: %w", shuffle.ErrOutcomeUnknown, err)
	}
	err = p.lifecycle.FinishPartition(ctx)
	if err != nil && (p.daemonLost.Load() != nil || errors.Is(err, shuffle.ErrDaemonLost)) {
		err = p.awaitEndRead(ctx, err)
	}
	if err != nil {
		return fmt.Errorf("partition %s: finish: %w: %w", p.label(), shuffle.ErrOutcomeUnknown, err)
	}
	p.finished = true
	return nil
}

// publishEnd publishes end-of-partition in all subpartitions, or returns an error
// and has published it in none. For this event there is always room.
func (p *ResultPartition) publishEnd(ctx context.Context) error {
	p.ending.Lock()
	defer p.ending.Unlock()
	if err := p.checkWritable(); err != nil {
		return err
	}
	end := shuffle.EndOfPartition{}
	content, err := shuffle.EncodeEvent(end)
	if err != nil {
		return err
	}
	if err := p.broadcastEvent(ctx, end.DataType(), content); err != nil {
		return err
	}
	p.published.Store(true)
	p.pool.LazyDestroy() // no segment is needed any more
	return nil
}

// awaitEndRead waits until every consumer has released everything up to
// end-of-partition, or none of them gets on: then it returns why nobody else can
// tell.
func (p *ResultPartition) awaitEndRead(ctx context.Context, lost error) error {
	before := -1
	var quiet standstill.Standstill
	for {
		rings := p.bell.Rings()
		p.bell.Collect(len(p.subpartitions), func(int) {}) // all of them are looked at
		unread, behind := p.endUnread()
		if err := p.ended.Load(); err != nil {
			return fmt.Errorf("%w: %w", *err, lost)
		}
		if unread == 0 {
			return nil
		}
		if unread != before {
			before = unread
			quiet.FoundSomething()
		}
		// Consumers that the daemon had brought are attached before its loss is told.
		if told := p.daemonLost.Load() != nil; told && !behind.isAttached() {
			return fmt.Errorf("subpartition %d has no consumer: %w", behind.index, lost)
		}
		if quiet.FoundNothing(time.Now(), daemonLostGrace) {
			return fmt.Errorf("the consumer of subpartition %d does not get on: %w", behind.index, lost)
		}
		if err := p.bell.Park(ctx, rings, p.words.Parked, min(maxWait, standstill.Step(daemonLostGrace))); err != nil {
			return fmt.Errorf("subpartition %d is not read to its end: %w: %w", behind.index, err, lost)
		}
	}
}

// endUnread returns how many elements are not released, and one of the
// subpartitions that they are in: one without a consumer, if there is one. Their
// consumers ring when they have released the last.
func (p *ResultPartition) endUnread() (unread int, behind *ResultSubpartition) {
	for _, s := range p.subpartitions {
		s.armEnd() // before the look, or what is released in between rings for nobody
		if _, err := s.reclaim(); err != nil {
			p.consumerLost(s, err)
		}
		n := s.QueuedBuffers()
		unread += n
		if n > 0 && (behind == nil || !s.isAttached()) {
			behind = s
		}
	}
	return unread, behind
}

// armEnd asks the consumer for a wake-up when it has released everything.
func (s *ResultSubpartition) armEnd() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.queue.Unreleased(); n > 0 {
		s.queue.LimitHeld(memseg.HeldLimit{})
		s.queue.ArmReleased(n)
	}
}

func (s *ResultSubpartition) isAttached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link != nil
}

// Fail implements shuffle.ResultPartition.
func (p *ResultPartition) Fail(ctx context.Context, cause error) error {
	if err := p.check(); err != nil {
		return err
	}
	if ctx == nil {
		return p.checkContext(ctx)
	}
	if absent.Is(cause) {
		cause = errors.New("no cause was given")
	}
	flushed := p.FlushAll()
	if errors.Is(flushed, shuffle.ErrClosed) {
		return flushed
	}
	if err := p.fail(cause); err != nil {
		return err
	}
	return p.lifecycle.FailPartition(ctx, cause.Error())
}

// fail ends the partition unless its end is published.
func (p *ResultPartition) fail(cause error) error {
	p.ending.Lock()
	defer p.ending.Unlock()
	if p.published.Load() {
		return fmt.Errorf("partition %s: fail: %w", p.label(), shuffle.ErrFinished)
	}
	p.end(fmt.Errorf("partition %s: %w: %w", p.label(), shuffle.ErrPartitionFailed, sentinel.Foreign(cause)))
	return nil
}

// Release implements shuffle.ResultPartition.
func (p *ResultPartition) Release(ctx context.Context) error {
	if err := p.check(); err != nil {
		return err
	}
	if p.closing.Load() {
		return p.closedError()
	}
	if ctx == nil {
		return p.checkContext(ctx)
	}
	p.end(fmt.Errorf("partition %s: %w", p.label(), shuffle.ErrPartitionReleased))
	return p.lifecycle.ReleasePartition(ctx)
}

// EndedByHost tells the producer that its host has ended the partition, and why:
// it was consumed, which is the normal end, has expired, or was fenced by a newer
// attempt. Later writes return err, after the normal end ErrFinished.
func (p *ResultPartition) EndedByHost(err error) {
	if p.check() != nil {
		return
	}
	if err == nil {
		err = fmt.Errorf("partition %s: its host has ended it without a reason: %w", p.label(),
			shuffle.ErrPartitionReleased)
	}
	if !p.published.Load() || !errors.Is(err, shuffle.ErrPartitionReleased) {
		p.end(err)
	}
}

// end makes every later write return err; the first reason stays.
func (p *ResultPartition) end(err error) {
	p.ended.CompareAndSwap(nil, &err)
	p.wake()
}

// wake ends a wait of the writer for it to look again.
func (p *ResultPartition) wake() {
	if p.enter() == nil {
		defer p.leave()
		p.bell.Wake()
	}
}

// Close implements shuffle.ResultPartition.
func (p *ResultPartition) Close() error {
	if err := p.check(); err != nil {
		return err
	}
	if p.closing.Swap(true) {
		return p.closedError()
	}
	p.end(p.closedError())
	p.giveUp()
	return p.lifecycle.ClosePartition() // which may wait for the daemon: no lock is held
}

// giveUp waits for calls that are under way, has later ones return ErrClosed, and
// gives back what the partition holds.
func (p *ResultPartition) giveUp() {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.useMu.Lock()
	defer p.useMu.Unlock()
	p.closed.Store(true)
	for _, s := range p.subpartitions {
		s.detach(false)
		s.stop()
	}
	for _, segment := range p.segments {
		if segment != nil {
			_ = segment.Free() // freed here only
		}
	}
	p.pool.LazyDestroy()
}
