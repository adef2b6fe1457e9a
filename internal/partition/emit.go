package partition

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// checkRecord returns ErrRecordTooLarge for a framed record whose length prefix
// could not hold its length.
func (p *ResultPartition) checkRecord(framed int) error {
	if framed-4 > shuffle.MaxRecordLength {
		return fmt.Errorf("partition %s: record of %d bytes, want at most %d: %w", p.label(), framed-4,
			shuffle.MaxRecordLength, shuffle.ErrRecordTooLarge)
	}
	return nil
}

// EmitRecord implements shuffle.ResultPartition.
func (p *ResultPartition) EmitRecord(ctx context.Context, record []byte, subpartition int) error {
	return p.EmitRecordParts(ctx, record, nil, subpartition)
}

// EmitRecordParts is EmitRecord of a record in two parts, such as its length
// prefix and its bytes, which need not be joined for it.
func (p *ResultPartition) EmitRecordParts(ctx context.Context, first, second []byte, subpartition int) (err error) {
	if err := p.beginWrite(); err != nil {
		return err
	}
	defer p.endWrite(&err)
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "write a record", &err)
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	size := len(first) + len(second)
	if err := p.checkWrite(size); err != nil {
		return err
	}
	p.setBroadcastMode(false)
	s := p.subpartitions[subpartition]
	startNew := !s.open
	if s.open && size > s.builder.WritableBytes() {
		startNew = p.isBetterWhole(size, s.builder.WritableBytes()) || s.isAtQuota()
	}
	if startNew || size > s.builder.WritableBytes() {
		if err := p.checkContext(ctx); err != nil {
			return err
		}
	}
	for rest := size; ; startNew = !s.open {
		if startNew {
			if err := p.startBuffer(ctx, s, p.partialLength(rest, size)); err != nil {
				return err
			}
		}
		if rest, err = p.writeParts(s, rest, &first, &second); err != nil || rest == 0 {
			return err
		}
	}
}

// writeParts writes what fits of a record, of which so many bytes are not written, and
// publishes it, so that the output flusher finds no part of a record in an open buffer:
// all of it is one step of the builder, and a part of it ends the buffer under its lock.
func (p *ResultPartition) writeParts(s *ResultSubpartition, rest int, first, second *[]byte) (left int, err error) {
	if p.appendRest(s.builder, rest, *first, *second) {
		p.commit(s)
		return 0, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if rest, err = p.appendPart(s.builder, rest, first, second); err != nil {
		return rest, err
	}
	p.commitLocked(s)
	return rest, nil
}

// StartRecord makes room for a record, of size bytes with its length prefix, as a
// whole: it ends a subpartition's open buffer if little is left of it, starts the
// next one, and lets the calling goroutine, which is at a place of its stack, into its
// builder. The record is written to dst outside of any lock (a lock that is let go
// behind a record waits until the record has left the core), then Advance of open
// keeps it, or Leave does not; PublishOpen is due when Advance says so. The next
// records need only Enter, for as long as that gives room.
//
// Without a dst the record is one to be cut, or the open buffer one that was begun by
// another goroutine, and it goes through EmitRecordParts. Waiting and errors are as
// there.
func (p *ResultPartition) StartRecord(ctx context.Context, at memseg.Place, size,
	subpartition int) (open *memseg.BufferBuilder, dst []byte, err error) {
	if err := p.check(); err != nil {
		return nil, nil, err
	}
	if err := p.checkSubpartition(subpartition); err != nil {
		return nil, nil, err
	}
	s := p.subpartitions[subpartition]
	if room := s.builder.WritableBytes(); size > p.layout.SegmentSize || s.open && (s.taken || size > room) &&
		!p.isBetterWhole(size, room) {
		return nil, nil, nil
	}
	return p.startWhole(ctx, s, at, size)
}

// startWhole starts a new buffer with the start of a record of size bytes, unless there
// is room for it in the open one, and lets the caller in.
func (p *ResultPartition) startWhole(ctx context.Context, s *ResultSubpartition, at memseg.Place,
	size int) (open *memseg.BufferBuilder, dst []byte, err error) {
	if err := p.beginWrite(); err != nil {
		return nil, nil, err
	}
	defer p.endWrite(&err)
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "start a buffer", &err)
	if err := p.checkWrite(size); err != nil {
		return nil, nil, err
	}
	if !s.open || size > s.builder.WritableBytes() {
		if err := p.checkContext(ctx); err != nil {
			return nil, nil, err
		}
		p.setBroadcastMode(false)
		if err := p.startBuffer(ctx, s, 0); err != nil {
			return nil, nil, err
		}
	}
	p.letIn(s, at)
	return s.builder, s.builder.Enter(at, size), nil
}

func (p *ResultPartition) checkSubpartition(subpartition int) error {
	if subpartition < 0 || subpartition >= len(p.subpartitions) {
		return fmt.Errorf("partition %s: subpartition %d of %d: %w", p.label(), subpartition, len(p.subpartitions),
			shuffle.ErrInvalidArgument)
	}
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

// appendRest writes all that is left of a record, if it fits.
func (p *ResultPartition) appendRest(b *memseg.BufferBuilder, rest int, first, second []byte) bool {
	dst := b.Reserve(rest)
	if dst == nil {
		return false
	}
	copy(dst[copy(dst, first):], second)
	b.Advance(rest)
	if p.begun != "" {
		p.begun = ""
	}
	return true
}

// appendPart writes what fits of a record that goes on in the next buffer, cuts it off
// its parts, and returns how many bytes are left.
func (p *ResultPartition) appendPart(b *memseg.BufferBuilder, rest int, parts ...*[]byte) (left int, err error) {
	for _, part := range parts {
		n, err := b.Append(*part)
		if err != nil {
			return rest, fmt.Errorf("partition %s: %w", p.label(), err)
		}
		*part = (*part)[n:]
		rest -= n
	}
	if p.begun = ""; rest > 0 {
		p.begun = "record"
	}
	return rest, nil
}

// PublishOpen publishes what was written to a subpartition's open buffer, and
// ends the buffer when it is full. The writer's goroutine calls it when Advance
// says so; errors of the partition surface here. While another goroutine is writing,
// which is an error of its next record and not of the one that is written, it is Flush.
func (p *ResultPartition) PublishOpen(subpartition int) (err error) {
	if err := p.beginWrite(); err != nil {
		return p.flushInstead(subpartition, err)
	}
	defer p.endWrite(&err)
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "commit a buffer", &err)
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	p.commit(p.subpartitions[subpartition])
	return p.checkWritable()
}

// FlushOpen is PublishOpen and Flush in one, for a writer that lets no record wait.
func (p *ResultPartition) FlushOpen(subpartition int) (err error) {
	if err := p.beginWrite(); err != nil {
		return p.flushInstead(subpartition, err)
	}
	defer p.endWrite(&err)
	if err := p.checkSubpartition(subpartition); err != nil {
		return err
	}
	p.commitAndFlush(p.subpartitions[subpartition])
	return p.checkWritable()
}

func (p *ResultPartition) flushInstead(subpartition int, refused error) error {
	if errors.Is(refused, shuffle.ErrConcurrentUse) {
		return p.Flush(subpartition)
	}
	return refused
}

func (p *ResultPartition) commitAndFlush(s *ResultSubpartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	openBytes := s.builder.Commit()
	if s.builder.IsFull() {
		p.finishOpen(s)
		openBytes = 0
	}
	s.flush(openBytes)
}

func (p *ResultPartition) commit(s *ResultSubpartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.commitLocked(s)
}

// commitLocked publishes what was written. A full buffer, which may end within a
// record, is ended in the same step.
func (p *ResultPartition) commitLocked(s *ResultSubpartition) {
	if s.builder.IsFull() {
		p.finishOpen(s)
		return
	}
	s.builder.Commit()
}

// finishOpen ends a subpartition's open buffer; its lock is held.
func (p *ResultPartition) finishOpen(s *ResultSubpartition) {
	if !s.open {
		return
	}
	s.finishBuffer(s.builder.Finish())
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
	p.finishShared()
	for _, s := range p.subpartitions {
		p.finishOwn(s)
	}
}

// finishOwn is finishOpen for who does not hold the lock.
func (p *ResultPartition) finishOwn(s *ResultSubpartition) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.finishOpen(s)
}

// startBuffer ends a subpartition's open buffer, if there is one, and starts the
// next, of which partial bytes continue a record. A record that begins waits while
// the subpartition has as many buffers as it may.
func (p *ResultPartition) startBuffer(ctx context.Context, s *ResultSubpartition, partial int) error {
	lack := shortage{of: segmentShortage, subpartition: s.index}
	return p.whenRoom(ctx, &lack, func() error {
		s.mu.Lock()
		defer s.mu.Unlock()
		p.finishOpen(s)
		if lack.of = segmentShortage; partial == 0 && s.atQuota() {
			lack.of = quotaShortage
			return memseg.ErrQueueFull
		}
		if !s.queue.HasRoom() {
			lack.of = queueShortage
			return memseg.ErrQueueFull
		}
		segment, err := p.takeSegment(s.builder, s.index, 1)
		if err != nil {
			return err
		}
		s.open, s.taken = true, false
		return s.publish(segment, partial)
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
		p.segments[segment] = memseg.NewSegment(p.memory.Bytes(segment), segment)
	}
	mem, err := p.segments[segment].Bytes()
	if err != nil {
		p.pool.Recycle(segment, channel)
		return 0, fmt.Errorf("partition %s: segment %d: %w", p.label(), segment, err)
	}
	b.Reset(mem, p.memory.Marker(segment))
	p.hold(segment, channel, queues)
	return segment, nil
}
