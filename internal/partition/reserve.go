package partition

import (
	"context"
	"encoding/binary"
	"fmt"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// A reservation is a record that its user is filling in place: it has entered the
// builder, at a place of its stack, and nobody is let in until it leaves.
type reservation struct {
	sub     *ResultSubpartition
	builder *memseg.BufferBuilder
	at      memseg.Place
	n       int
}

// Reserve implements shuffle.ResultPartition.
func (p *ResultPartition) Reserve(ctx context.Context, subpartition, n int) ([]byte, error) {
	if subpartition < 0 || subpartition >= p.NumSubpartitions() || n < 0 {
		if err := p.check(); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("partition %s: reserve %d bytes in subpartition %d of %d: %w",
			p.label(), n, subpartition, len(p.subpartitions), shuffle.ErrInvalidArgument)
	}
	if n > p.layout.SegmentSize-memseg.LengthPrefix {
		return nil, fmt.Errorf("partition %s: reserve %d bytes, want at most %d: %w",
			p.label(), n, p.layout.SegmentSize-memseg.LengthPrefix, shuffle.ErrRecordTooLarge)
	}
	if err := p.checkWrite(memseg.LengthPrefix + n); err != nil {
		return nil, err
	}
	s, at := p.subpartitions[subpartition], memseg.PlaceOf(&n)
	open := s.builder
	dst := open.Enter(at, memseg.LengthPrefix+n)
	if dst == nil {
		var err error
		if open, dst, err = p.startWhole(ctx, s, at, memseg.LengthPrefix+n); err != nil {
			return nil, err
		}
	}
	binary.BigEndian.PutUint32(dst, uint32(n))
	p.reserved = reservation{sub: s, builder: open, at: at, n: memseg.LengthPrefix + n}
	open.Pause() // whoever writes next on the fast path is sent the long way, and refused
	return dst[memseg.LengthPrefix:], nil
}

// checkNotReserved returns ErrInvalidArgument while a record is reserved: what is
// written now would lie where the record is to be.
func (p *ResultPartition) checkNotReserved() error {
	if p.reserved.sub != nil {
		return fmt.Errorf("partition %s: a record is reserved, commit or abort it first: %w", p.label(),
			shuffle.ErrInvalidArgument)
	}
	return nil
}

// Commit implements shuffle.ResultPartition.
func (p *ResultPartition) Commit() error {
	if err := p.check(); err != nil {
		return err
	}
	if p.closed.Load() {
		return fmt.Errorf("partition %s: %w", p.label(), shuffle.ErrClosed)
	}
	r := p.reserved
	if r.sub == nil {
		return fmt.Errorf("partition %s: commit without a reservation: %w", p.label(), shuffle.ErrInvalidArgument)
	}
	if p.ended.Load() != nil {
		p.Abort()
		return p.PublishOpen(r.sub.index)
	}
	p.reserved = reservation{}
	due := r.builder.Advance(r.n)
	r.builder.Resume(r.at)
	if due {
		return p.PublishOpen(r.sub.index)
	}
	return nil
}

// Abort implements shuffle.ResultPartition.
func (p *ResultPartition) Abort() {
	if p == nil {
		return
	}
	if r := p.reserved; r.sub != nil {
		p.reserved = reservation{}
		r.builder.Leave()
		r.builder.Resume(r.at)
	}
}
