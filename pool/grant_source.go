package pool

import (
	"fmt"
	"sync"
)

// CreateLocalPool returns a pool that lives in the process of the daemon, with a
// grant of its own. Its size follows redistribution, its segments are the lowest
// free ones of a region of config.Max segments (of the whole budget if that is
// less), and LazyDestroy destroys its grant too. It does not wait: if what it requires
// is not free, the others give back at once what exceeds their sizes and is free with
// them; what they need longer for comes too late. Errors are those of CreateGrant and
// NewLocalBufferPool.
func (p *NetworkBufferPool) CreateLocalPool(config LocalConfig) (*LocalBufferPool, error) {
	if err := config.validate(); err != nil {
		return nil, fmt.Errorf("local buffer pool: %w", err)
	}
	s := &grantSource{}
	grant, waits, err := p.QueueGrant(GrantSpec{Required: config.Required, Max: config.Max}, s, func(*Grant) {})
	if err == nil && waits {
		err = grant.GiveUp()
	}
	if err != nil {
		return nil, err
	}
	config.Max = min(config.Max, p.total)
	s.grant = grant
	s.numbers = NewSegmentSet(config.Max)
	local, err := NewLocalBufferPool(config, s)
	if err != nil {
		grant.Destroy()
		return nil, err
	}
	s.SizeChanged()
	return local, nil
}

// A grantSource is the Source of a LocalBufferPool over a Grant in the same
// process.
type grantSource struct {
	grant *Grant

	// Numbers are returned before their count and taken after it, so there is
	// always a number for a segment that the grant holds.
	mu      sync.Mutex
	numbers *SegmentSet
	pool    *LocalBufferPool // nil until Attach; grant and numbers are set by then
}

// Attach implements Source.
func (s *grantSource) Attach(p *LocalBufferPool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pool = p
}

// Request implements Source.
func (s *grantSource) Request(n int) []int {
	granted := s.grant.Request(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.numbers.Take(granted)
}

// Recycle implements Source.
func (s *grantSource) Recycle(segments []int) {
	s.mu.Lock()
	err := s.numbers.Return(segments)
	s.mu.Unlock()
	if err == nil {
		err = s.grant.Recycle(len(segments))
	}
	mustHold(err)
}

// Destroy implements Source.
func (s *grantSource) Destroy() { s.grant.Destroy() }

// Granted implements GrantListener. The pool is attached, since only it requests.
func (s *grantSource) Granted(n int) {
	s.mu.Lock()
	pool, segments := s.pool, s.numbers.Take(n)
	s.mu.Unlock()
	mustHold(pool.Granted(segments))
}

// SizeChanged implements GrantListener. It is also called by the creator of the
// pool, to set the first size and what changed before Attach. Both may be at it at
// once: whoever sets the size last looks at the grant after that, so the pool ends
// with the size that the grant has.
func (s *grantSource) SizeChanged() {
	s.mu.Lock()
	pool := s.pool
	s.mu.Unlock()
	if pool == nil {
		return
	}
	for {
		size := s.grant.Size()
		mustHold(pool.SetNumBuffers(size))
		if size == s.grant.Size() {
			return
		}
	}
}

// mustHold panics on an error that no caller can cause: pool, numbers and grant
// disagree.
func mustHold(err error) {
	if err != nil {
		panic(fmt.Sprintf("pool: grant and local pool disagree: %v", err))
	}
}
