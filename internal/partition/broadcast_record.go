package partition

import (
	"context"
	"runtime/debug"
	"slices"

	"shuffled/memseg"
	"shuffled/pool"
)

// BroadcastRecord implements shuffle.ResultPartition.
func (p *ResultPartition) BroadcastRecord(ctx context.Context, record []byte) error {
	return p.BroadcastRecordParts(ctx, record, nil)
}

// BroadcastRecordParts is BroadcastRecord of a record in two parts.
func (p *ResultPartition) BroadcastRecordParts(ctx context.Context, first, second []byte) (err error) {
	if err := p.beginWrite(); err != nil {
		return err
	}
	defer p.endWrite(&err)
	size := len(first) + len(second)
	if err := p.checkWrite(size); err != nil {
		return err
	}
	if p.broadcastOpen && size <= p.broadcast.WritableBytes() {
		_, err := p.broadcastParts(size, &first, &second)
		return err
	}
	return p.broadcastLong(ctx, first, second)
}

// broadcastLong writes a record that needs a new buffer.
func (p *ResultPartition) broadcastLong(ctx context.Context, first, second []byte) (err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "broadcast a record", &err)
	if err := p.checkContext(ctx); err != nil {
		return err
	}
	p.setBroadcastMode(true)
	size := len(first) + len(second)
	if p.broadcastOpen && (p.isBetterWhole(size, p.broadcast.WritableBytes()) || p.someAtQuota()) {
		p.finishShared()
	}
	for rest := size; ; {
		if !p.broadcastOpen {
			if err := p.startBroadcast(ctx, p.partialLength(rest, size)); err != nil {
				return err
			}
		}
		if rest, err = p.broadcastParts(rest, &first, &second); err != nil || rest == 0 {
			return err
		}
	}
}

// broadcastParts is writeParts to all subpartitions.
func (p *ResultPartition) broadcastParts(rest int, first, second *[]byte) (left int, err error) {
	whole := p.appendRest(&p.broadcast, rest, *first, *second)
	p.broadcastMu.Lock()
	defer p.broadcastMu.Unlock()
	if whole {
		rest = 0
	} else if rest, err = p.appendPart(&p.broadcast, rest, first, second); err != nil {
		return rest, err
	}
	if p.broadcast.IsFull() {
		p.finishBroadcast()
	} else {
		p.broadcast.Commit()
	}
	return rest, nil
}

// finishShared is finishBroadcast for who does not hold the lock.
func (p *ResultPartition) finishShared() {
	p.broadcastMu.Lock()
	defer p.broadcastMu.Unlock()
	p.finishBroadcast()
}

func (p *ResultPartition) someAtQuota() bool {
	return slices.ContainsFunc(p.subpartitions, (*ResultSubpartition).isAtQuota)
}

// finishBroadcast ends the shared open buffer; broadcastMu is held.
func (p *ResultPartition) finishBroadcast() {
	if !p.broadcastOpen {
		return
	}
	n := p.broadcast.Finish()
	p.broadcastOpen = false
	for _, s := range p.subpartitions {
		s.finishShared(n)
	}
}

func (p *ResultPartition) startBroadcast(ctx context.Context, partial int) error {
	lack := shortage{of: segmentShortage, subpartition: everySubpartition}
	return p.whenRoom(ctx, &lack, func() error {
		lack.of, lack.subpartition = segmentShortage, everySubpartition
		for _, s := range p.subpartitions {
			if partial == 0 && s.isAtQuota() {
				lack.of, lack.subpartition = quotaShortage, s.index
				return memseg.ErrQueueFull
			}
			if !s.hasRoom() {
				lack.of, lack.subpartition = queueShortage, s.index
				return memseg.ErrQueueFull
			}
		}
		p.broadcastMu.Lock()
		defer p.broadcastMu.Unlock()
		segment, err := p.takeSegment(&p.broadcast, pool.NoChannel, len(p.subpartitions))
		if err != nil {
			return err
		}
		p.broadcastOpen = true
		for _, s := range p.subpartitions {
			if err := s.startShared(segment, partial); err != nil {
				return err
			}
		}
		return nil
	})
}
