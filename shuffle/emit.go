package shuffle

import (
	"context"
	"fmt"
	"math"

	"shuffled/memseg"
	"shuffled/pool"
)

// MaxRecordLength is the longest record, in bytes without its length prefix.
const MaxRecordLength = math.MaxInt32

// OpenBuffer returns the builder of a subpartition's open buffer, for a writer's
// fast path: its goroutine may Reserve and Advance there, and calls PublishOpen
// when Advance says so. When nothing can be reserved, EmitRecord goes the long
// way. It is the same builder for every buffer of the subpartition.
func (p *ResultPartition) OpenBuffer(subpartition int) *memseg.BufferBuilder {
	return &p.subpartitions[subpartition].builder
}

// checkRecord returns ErrRecordTooLarge for a framed record whose length prefix
// could not hold its length.
func (p *ResultPartition) checkRecord(framed int) error {
	if framed-4 > MaxRecordLength {
		return fmt.Errorf("partition %s: record of %d bytes, want at most %d: %w", p.spec.ID, framed-4, MaxRecordLength, ErrRecordTooLarge)
	}
	return nil
}

// EmitRecord writes a record, which already holds its length prefix, to one
// subpartition. It may span buffers. When no segment is free it first flushes
// all subpartitions and then waits until consumers release some or ctx ends.
// If it fails in the middle of a record, nothing more can be written.
//
// A subpartition out of range is ErrInvalidArgument before anything is taken.
func (p *ResultPartition) EmitRecord(ctx context.Context, record []byte, subpartition int) error {
	return p.EmitRecordParts(ctx, record, nil, subpartition)
}

// EmitRecordParts is EmitRecord of a record in two parts, such as its length
// prefix and its bytes, which need not be joined for it.
func (p *ResultPartition) EmitRecordParts(ctx context.Context, first, second []byte, subpartition int) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	size := len(first) + len(second)
	if err := p.prepareWrite(size, false); err != nil {
		return err
	}
	s := p.subpartitions[subpartition]
	startNew := !s.open || p.isBetterWhole(size, s.builder.WritableBytes())
	for rest := size; ; startNew = !s.open {
		if startNew {
			if err := p.startBuffer(ctx, s, p.partialLength(rest, size)); err != nil {
				return p.failedInRecord(err, rest < size)
			}
		}
		n, err := appendParts(&s.builder, &first, &second)
		if err != nil {
			return fmt.Errorf("partition %s: %w", p.spec.ID, err)
		}
		rest -= n
		p.commit(s)
		if rest == 0 {
			return nil
		}
	}
}

// StartRecord makes room for a record, of size bytes with its length prefix, as a
// whole: it ends a subpartition's open buffer if little is left of it, and starts
// the next one. Then the writer can Reserve in OpenBuffer and write outside of any
// lock; a lock that is let go behind a record waits until the record has left the
// core. Where Reserve still returns nothing, the record is one to be cut, and goes
// through EmitRecordParts. Waiting and errors are as there.
func (p *ResultPartition) StartRecord(ctx context.Context, size, subpartition int) error {
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	s := p.subpartitions[subpartition]
	if size > p.layout.SegmentSize || s.open && !p.isBetterWhole(size, s.builder.WritableBytes()) {
		return nil
	}
	if err := p.checkWrite(size); err != nil {
		return err
	}
	return p.startWhole(ctx, s)
}

// startWhole starts a new buffer with the start of a record.
func (p *ResultPartition) startWhole(ctx context.Context, s *ResultSubpartition) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	p.setBroadcastMode(false)
	return p.startBuffer(ctx, s, 0)
}

func (p *ResultPartition) checkSubpartition(subpartition int) error {
	if subpartition < 0 || subpartition >= len(p.subpartitions) {
		return fmt.Errorf("partition %s: subpartition %d of %d: %w", p.spec.ID, subpartition, len(p.subpartitions), ErrInvalidArgument)
	}
	return nil
}

func (p *ResultPartition) prepareWrite(framed int, broadcast bool) error {
	if err := p.checkWrite(framed); err != nil {
		return err
	}
	p.setBroadcastMode(broadcast)
	return nil
}

func (p *ResultPartition) checkWrite(framed int) error {
	if err := p.checkWritable(); err != nil {
		return err
	}
	if err := p.checkRecord(framed); err != nil {
		return err
	}
	return p.checkNotReserved()
}

// failedInRecord ends the partition when an error cuts a record in two: its
// reader could not find the next one.
func (p *ResultPartition) failedInRecord(err error, inRecord bool) error {
	if inRecord {
		err = fmt.Errorf("partition %s: record cut by: %w", p.spec.ID, err)
		p.ended.CompareAndSwap(nil, &err) // the caller is the only one to wait
	}
	return err
}

// BroadcastRecord writes a record, with its length prefix, to every
// subpartition. All share one segment, which returns to the pool after the
// slowest. Otherwise as EmitRecord.
func (p *ResultPartition) BroadcastRecord(ctx context.Context, record []byte) error {
	return p.BroadcastRecordParts(ctx, record, nil)
}

// BroadcastRecordParts is BroadcastRecord of a record in two parts.
func (p *ResultPartition) BroadcastRecordParts(ctx context.Context, first, second []byte) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	size := len(first) + len(second)
	if err := p.prepareWrite(size, true); err != nil {
		return err
	}
	if p.broadcastOpen && p.isBetterWhole(size, p.broadcast.WritableBytes()) {
		p.broadcastMu.Lock()
		p.finishBroadcast()
		p.broadcastMu.Unlock()
	}
	for rest := size; ; {
		if !p.broadcastOpen {
			if err := p.startBroadcast(ctx, p.partialLength(rest, size)); err != nil {
				return p.failedInRecord(err, rest < size)
			}
		}
		n, err := appendParts(&p.broadcast, &first, &second)
		if err != nil {
			return fmt.Errorf("partition %s: %w", p.spec.ID, err)
		}
		rest -= n
		p.broadcastMu.Lock()
		p.broadcast.Commit()
		if p.broadcast.IsFull() {
			p.finishBroadcast()
		}
		p.broadcastMu.Unlock()
		if rest == 0 {
			return nil
		}
	}
}

// isBetterWhole reports whether a record should start a new buffer instead of being
// cut over the open one, which has room for so many bytes: a record that lies in
// one buffer is read in place, one that is cut is gathered, which is a copy. What
// is left unused is at most a sixteenth of the segment.
func (p *ResultPartition) isBetterWhole(size, writable int) bool {
	return size > writable && size <= p.layout.SegmentSize && writable <= p.layout.SegmentSize/16
}

// partialLength says how much of a new buffer continues a record of size bytes
// of which rest are not written.
func (p *ResultPartition) partialLength(rest, size int) int {
	if rest == size {
		return 0
	}
	return min(rest, p.layout.SegmentSize)
}

// appendParts writes what fits of a record's parts and cuts it off them.
func appendParts(b *memseg.BufferBuilder, parts ...*[]byte) (written int, err error) {
	for _, part := range parts {
		n, err := b.Append(*part)
		if err != nil {
			return written, err
		}
		*part = (*part)[n:]
		written += n
	}
	return written, nil
}

// PublishOpen publishes what was written to a subpartition's open buffer, and
// ends the buffer when it is full. The writer's goroutine calls it when Advance
// says so; errors of the partition surface here.
func (p *ResultPartition) PublishOpen(subpartition int) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	p.commit(p.subpartitions[subpartition])
	return p.checkWritable()
}

// FlushOpen is PublishOpen and Flush in one, for a writer that lets no record wait.
func (p *ResultPartition) FlushOpen(subpartition int) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	s := p.subpartitions[subpartition]
	s.mu.Lock()
	openBytes := s.builder.Commit()
	if s.builder.IsFull() {
		p.finishOpen(s)
		openBytes = 0
	}
	s.flush(openBytes)
	s.mu.Unlock()
	return p.checkWritable()
}

func (p *ResultPartition) commit(s *ResultSubpartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.builder.Commit()
	if s.builder.IsFull() {
		p.finishOpen(s)
	}
}

// finishOpen ends a subpartition's open buffer; its lock is held.
func (p *ResultPartition) finishOpen(s *ResultSubpartition) {
	if !s.open {
		return
	}
	s.finishBuffer(s.builder.Finish())
}

// finishBroadcast ends the shared open buffer; broadcastMu is held.
func (p *ResultPartition) finishBroadcast() {
	if !p.broadcastOpen {
		return
	}
	n := p.broadcast.Finish()
	p.broadcastOpen = false
	for _, s := range p.subpartitions {
		s.mu.Lock()
		s.finishBuffer(n)
		s.mu.Unlock()
	}
}

// setBroadcastMode ends the open buffers of the other mode.
func (p *ResultPartition) setBroadcastMode(broadcast bool) {
	if p.broadcastNow == broadcast {
		return
	}
	p.broadcastNow = broadcast
	p.finishBuilders()
}

func (p *ResultPartition) finishBuilders() {
	p.broadcastMu.Lock()
	p.finishBroadcast()
	p.broadcastMu.Unlock()
	for _, s := range p.subpartitions {
		s.mu.Lock()
		p.finishOpen(s)
		s.mu.Unlock()
	}
}

// startBuffer ends a subpartition's open buffer, if there is one, and starts the
// next, of which partial bytes continue a record.
func (p *ResultPartition) startBuffer(ctx context.Context, s *ResultSubpartition, partial int) error {
	return p.whenSegment(ctx, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.finishOpen(s)
		if !s.queue.HasRoom() {
			return memseg.ErrQueueFull
		}
		segment, err := p.takeSegment(&s.builder, s.index, 1)
		if err != nil {
			return err
		}
		s.open = true
		return s.publish(segment, partial)
	})
}

func (p *ResultPartition) startBroadcast(ctx context.Context, partial int) error {
	return p.whenSegment(ctx, func() error {
		for _, s := range p.subpartitions {
			if !s.hasRoom() {
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

// takeSegment starts a builder on a segment of the pool, for so many queues, or
// returns memseg.ErrQueueFull if none is free.
func (p *ResultPartition) takeSegment(b *memseg.BufferBuilder, channel, queues int) (segment int, err error) {
	segment, ok, err := p.pool.TryRequest(channel)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, memseg.ErrQueueFull
	}
	if p.segments[segment] == nil {
		p.segments[segment] = memseg.NewSegment(p.layout.SegmentBytes(p.region, segment), segment, p)
	}
	mem, err := p.segments[segment].Bytes()
	if err != nil {
		p.pool.Recycle(segment, channel)
		return 0, fmt.Errorf("partition %s: segment %d: %w", p.spec.ID, segment, err)
	}
	b.Reset(mem, p.layout.Marker(p.region, segment))
	p.hold(segment, channel, queues)
	return segment, nil
}

// BroadcastEvent finishes all open buffers and queues the event behind them in
// every subpartition, or before everything that is queued if it has priority. It
// wakes parked consumers. It waits only if a consumer leaves all its event slots
// unread.
func (p *ResultPartition) BroadcastEvent(ctx context.Context, e Event) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if err := p.checkWritable(); err != nil {
		return err
	}
	return p.broadcastEvent(ctx, e)
}

func (p *ResultPartition) broadcastEvent(ctx context.Context, e Event) error {
	if err := p.checkNotReserved(); err != nil {
		return err
	}
	content, err := EncodeEvent(e)
	if err != nil {
		return fmt.Errorf("partition %s: %w", p.spec.ID, err)
	}
	p.finishBuilders()
	for i, s := range p.subpartitions {
		err := p.whenRoom(ctx, func() error {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.addEvent(e.DataType(), content)
		})
		if err != nil {
			return p.failedInRecord(fmt.Errorf("event for subpartition %d: %w", i, err), i > 0)
		}
	}
	return nil
}

// Flush wakes the consumer of a subpartition for what was written so far. The
// open buffer stays open.
func (p *ResultPartition) Flush(subpartition int) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	p.flush(p.subpartitions[subpartition])
	return nil
}

// FlushAll is Flush for every subpartition.
func (p *ResultPartition) FlushAll() error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	p.flushAll()
	if p.pool.Requested() > p.pool.Size() {
		p.reclaim() // the pool was shrunk: give back what is read meanwhile
	}
	return nil
}

func (p *ResultPartition) flushAll() {
	for _, s := range p.subpartitions {
		p.flush(s)
	}
}

func (p *ResultPartition) flush(s *ResultSubpartition) {
	p.broadcastMu.Lock()
	shared, openBytes := p.broadcastOpen, 0
	if shared {
		openBytes = p.broadcast.PublishWritten()
	}
	s.mu.Lock()
	if s.open && !shared {
		openBytes = s.builder.PublishWritten()
	}
	s.flush(openBytes)
	s.mu.Unlock()
	p.broadcastMu.Unlock()
}
