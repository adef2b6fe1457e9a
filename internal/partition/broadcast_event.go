package partition

import (
	"context"
	"fmt"
	"runtime/debug"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// BroadcastEvent implements shuffle.ResultPartition.
func (p *ResultPartition) BroadcastEvent(ctx context.Context, e shuffle.Event) (err error) {
	if err := p.beginWrite(); err != nil {
		return err
	}
	defer p.endWrite(&err)
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "send an event", &err)
	if err := p.checkWritable(); err != nil {
		return err
	}
	content, err := shuffle.EncodeEvent(e)
	if err != nil {
		return fmt.Errorf("partition %s: %w", p.label(), err)
	}
	typ := e.DataType()
	if typ == memseg.EndOfPartition {
		return fmt.Errorf("partition %s: the end of the partition is no event, Finish sends it: %w", p.label(),
			shuffle.ErrInvalidArgument)
	}
	return p.broadcastEvent(ctx, typ, content)
}

// broadcastEvent sends a serialised event to all subpartitions or to none.
func (p *ResultPartition) broadcastEvent(ctx context.Context, typ memseg.DataType, content []byte) error {
	if err := p.checkNotReserved(); err != nil {
		return err
	}
	if err := p.checkContext(ctx); err != nil {
		return err
	}
	p.finishBuilders()
	lack := shortage{of: eventShortage}
	if typ.HasPriority() {
		lack.of = priorityShortage
	}
	err := p.whenRoom(ctx, &lack, func() error {
		for _, s := range p.subpartitions {
			if !s.hasEventRoom(typ) {
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
		if err := s.addEvent(typ, stored); err != nil {
			return fmt.Errorf("subpartition %d: %w", s.index, err)
		}
	}
	p.begun = ""
	return nil
}
