package shuffle

import (
	"context"
	"fmt"
	"runtime/debug"

	"shuffled/memseg"
)

// BroadcastEvent finishes all open buffers and queues the event behind them in
// every subpartition, or before everything that is queued if it has priority. It
// wakes parked consumers.
//
// It waits if a consumer leaves all its event slots unread, until there is room in
// every subpartition. So an error means that no consumer gets the event, and that
// the partition goes on. The end of the partition is sent by Finish only: as an
// event it is ErrInvalidArgument, as is nil.
func (p *ResultPartition) BroadcastEvent(ctx context.Context, e Event) (err error) {
	if err := p.beginWrite(); err != nil {
		return err
	}
	defer p.endWrite(&err)
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "send an event", &err)
	if err := p.checkWritable(); err != nil {
		return err
	}
	if e, err = plainEvent(e); err != nil {
		return fmt.Errorf("partition %s: %w", p.label(), err)
	}
	if e.DataType() == memseg.EndOfPartition {
		return fmt.Errorf("partition %s: the end of the partition is no event, Finish sends it: %w", p.label(), ErrInvalidArgument)
	}
	return p.broadcastEvent(ctx, e)
}

// broadcastEvent sends an event to all subpartitions or to none.
func (p *ResultPartition) broadcastEvent(ctx context.Context, e Event) error {
	if err := p.checkNotReserved(); err != nil {
		return err
	}
	content, err := EncodeEvent(e)
	if err != nil {
		return fmt.Errorf("partition %s: %w", p.label(), err)
	}
	if err := p.checkContext(ctx); err != nil {
		return err
	}
	p.finishBuilders()
	lack := shortage{of: eventShortage}
	if e.DataType().HasPriority() {
		lack.of = priorityShortage
	}
	err = p.whenRoom(ctx, &lack, func() error {
		for _, s := range p.subpartitions {
			if !s.hasEventRoom(e.DataType()) {
				lack.subpartition = s.index
				return memseg.ErrQueueFull
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	stored, err := p.events.Put(content) // one slot for all queues
	if err != nil {
		return fmt.Errorf("partition %s: %w", p.label(), err)
	}
	defer p.events.Release(stored)
	// Others only make more room: consumers that release, and those that leave.
	p.begun = "event"
	for _, s := range p.subpartitions {
		if err := s.addEvent(e.DataType(), stored); err != nil {
			return fmt.Errorf("subpartition %d: %w", s.index, err)
		}
	}
	p.begun = ""
	return nil
}
