package partition

import (
	"errors"
	"runtime/debug"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// Flush implements shuffle.ResultPartition.
func (p *ResultPartition) Flush(subpartition int) error {
	return p.flushSome(func() error {
		if err := p.checkSubpartition(subpartition); err != nil {
			return err
		}
		p.flush(p.subpartitions[subpartition])
		return nil
	})
}

// FlushAll implements shuffle.ResultPartition.
func (p *ResultPartition) FlushAll() error {
	return p.flushSome(func() error {
		p.flushAll()
		if p.pool.Requested() > p.pool.Size() {
			p.reclaim() // the pool was shrunk: give back what is read meanwhile
		}
		return nil
	})
}

// flushSome calls f while the region is mapped. Memory that is gone ends the
// partition.
func (p *ResultPartition) flushSome(f func() error) (err error) {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	defer func() {
		if err != nil && errors.Is(err, memseg.ErrFault) {
			err = p.memoryLost(err)
		}
	}()
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "flush", &err)
	if err := f(); err != nil {
		return err
	}
	if ended := p.ended.Load(); ended != nil && errors.Is(*ended, shuffle.ErrClosed) {
		return *ended // with its client: nobody is there any more to be told
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
	defer p.broadcastMu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	openBytes := 0
	if p.broadcastOpen {
		openBytes = p.broadcast.PublishWritten()
	} else if s.open {
		openBytes = s.builder.PublishWritten()
	}
	s.flush(openBytes)
}
