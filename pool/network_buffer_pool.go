package pool

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// A NetworkBufferPool is the budget of segments of a daemon, as Flink's class of
// that name without the memory. It counts segments and divides them between
// grants; it admits a grant if everything it requires can still be promised,
// whether or not so many segments are free at the moment.
//
// All methods may be called from any number of goroutines, also from the
// callbacks of a [GrantListener]. After Destroy, CreateGrant returns
// ErrDestroyed and no grant gets segments any more; they may still be recycled.
type NetworkBufferPool struct {
	total       int
	segmentSize int

	// Everything under the lock is counting, so one lock serves the promises and
	// the free count. Only redistribution and serving waiters look at more than one
	// grant, and none of it lies on the path of data.
	mu        sync.Mutex
	free      int // segments that no grant holds
	required  int // what is promised: sum of Required over grants
	reserved  int // what of it is still to be handed out: sum of Grant.unmet
	grants    []*Grant
	waiting   []*Grant // with a wish, in the order in which they began to wait
	destroyed bool

	announcements []*Grant // have something to tell their listeners
	announcing    bool     // a goroutine is at it
}

// NetworkStats is a consistent snapshot of the counters of a NetworkBufferPool.
// All are zero after Destroy.
type NetworkStats struct {
	Total     int // segments of the budget
	Available int // segments that no grant holds
	Used      int // segments that grants hold, destroyed ones included
	Required  int // segments promised to grants; never more than Total
	Grants    int // grants that were not destroyed
}

// NewNetworkBufferPool returns a budget of total segments of segmentSize bytes.
// It returns ErrInvalidArgument if one of them is not positive or there are
// 2^31 segments or more.
func NewNetworkBufferPool(total, segmentSize int) (*NetworkBufferPool, error) {
	if total <= 0 || total > math.MaxInt32 {
		return nil, fmt.Errorf("network buffer pool: total is %d, want 1 to %d: %w", total, math.MaxInt32, ErrInvalidArgument)
	}
	if segmentSize <= 0 {
		return nil, fmt.Errorf("network buffer pool: segment size is %d, want a positive number of bytes: %w", segmentSize, ErrInvalidArgument)
	}
	return &NetworkBufferPool{total: total, segmentSize: segmentSize, free: total}, nil
}

// CreateGrant promises spec.Required segments to a new grant and redistributes
// the surplus. The listener hears of everything that happens to the grant from
// then on, possibly before CreateGrant has returned; it does not hear of the
// first size, which is to be read with [Grant.Size].
//
// It returns ErrInsufficientBuffers if that much cannot be promised any more,
// ErrInvalidArgument for a spec outside its range or no listener, and
// ErrDestroyed after Destroy.
func (p *NetworkBufferPool) CreateGrant(spec GrantSpec, listener GrantListener) (*Grant, error) {
	if err := spec.validate(); err != nil {
		return nil, fmt.Errorf("create grant: %w", err)
	}
	if listener == nil {
		return nil, fmt.Errorf("create grant: no listener: %w", ErrInvalidArgument)
	}
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	if p.destroyed {
		return nil, fmt.Errorf("create grant: %w", ErrDestroyed)
	}
	if spec.Required > p.total-p.required {
		return nil, fmt.Errorf("%w: required %d, but only %d available; the daemon has %d segments of %d bytes (--memory, --segment-size)",
			ErrInsufficientBuffers, spec.Required, p.total-p.required, p.total, p.segmentSize)
	}
	g := &Grant{pool: p, spec: spec, listener: listener, size: spec.Required}
	p.required += spec.Required
	p.reserved += spec.Required
	p.grants = append(p.grants, g)
	p.redistribute()
	g.resized = false
	p.serveWaiting()
	return g, nil
}

// DestroyAllGrants destroys every grant. What they hold stays charged until it
// is recycled. The pool can be used afterwards.
func (p *NetworkBufferPool) DestroyAllGrants() {
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	p.destroyGrants(p.grants...)
}

// Destroy ends the pool: no grants are created and no segments are handed out
// any more. It does not destroy the grants. It may be called more than once.
func (p *NetworkBufferPool) Destroy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.destroyed = true
	for _, g := range p.waiting {
		g.wish = 0
	}
	p.waiting = nil
}

// Stats returns the counters as they were at one moment.
func (p *NetworkBufferPool) Stats() NetworkStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.destroyed {
		return NetworkStats{}
	}
	return NetworkStats{
		Total:     p.total,
		Available: p.free,
		Used:      p.total - p.free,
		Required:  p.required,
		Grants:    len(p.grants),
	}
}

// destroyGrants takes promises back and redistributes what that sets free. The
// caller holds the lock.
func (p *NetworkBufferPool) destroyGrants(grants ...*Grant) {
	for _, g := range grants {
		if g.destroyed {
			continue
		}
		p.reserved -= g.unmet()
		p.required -= g.spec.Required
		g.destroyed = true
		g.resized = false
		g.wish = 0
		// The listener has not been told of these, so nobody else could return them.
		p.move(g, -g.unannounced)
		g.unannounced = 0
	}
	p.grants = slices.DeleteFunc(p.grants, func(g *Grant) bool { return g.destroyed })
	p.waiting = slices.DeleteFunc(p.waiting, func(g *Grant) bool { return g.wish == 0 })
	p.redistribute()
	p.serveWaiting()
}

// move charges n segments to the grant, or gives -n back. The caller holds the
// lock.
func (p *NetworkBufferPool) move(g *Grant, n int) {
	p.reserved -= g.unmet()
	g.held += n
	p.free -= n
	p.reserved += g.unmet()
	if p.free < 0 || p.free > p.total || g.held < 0 {
		panic(fmt.Sprintf("pool: %d of %d segments free, %d held by a grant", p.free, p.total, g.held))
	}
}

// takeable returns how many of n segments the grant may have now. Beyond what it
// requires, a grant gets only what no other grant still has to get to have what
// that one requires. This matters only while some grant holds more than its
// size, since sizes add up to no more than there is. It ensures that segments
// which come back first go to those that cannot work without them. The caller
// holds the lock.
func (p *NetworkBufferPool) takeable(g *Grant, n int) int {
	n = max(0, min(n, g.size-g.held, p.free))
	needed := min(n, g.unmet())
	lendable := max(0, p.free-needed-(p.reserved-g.unmet()))
	return needed + min(n-needed, lendable)
}

// serveWaiting gives free segments to the grants that wait for them, first come
// first served, so that no segment stays free that a waiting grant may have. It
// is called after every change that can make segments takeable. The caller holds
// the lock.
func (p *NetworkBufferPool) serveWaiting() {
	if p.free == 0 || len(p.waiting) == 0 {
		return
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(g *Grant) bool {
		if n := p.takeable(g, g.wish); n > 0 {
			p.move(g, n)
			g.wish -= n
			g.unannounced += n
			p.announce(g)
		}
		return g.wish == 0
	})
}

// announce lists the grant among those whose listeners are to be called. The
// caller holds the lock and releases it with unlockAndAnnounce.
func (p *NetworkBufferPool) announce(g *Grant) {
	if !g.listed {
		g.listed = true
		p.announcements = append(p.announcements, g)
	}
}

// unlockAndAnnounce releases the lock and then calls the listeners that have
// something to hear. One goroutine at a time does this, for all others too: so
// listeners are called one after another, with no lock held, and a callback that
// changes the pool again does not nest.
func (p *NetworkBufferPool) unlockAndAnnounce() {
	if p.announcing {
		p.mu.Unlock()
		return
	}
	p.announcing = true
	for len(p.announcements) > 0 {
		g := p.announcements[0]
		p.announcements = p.announcements[1:]
		g.listed = false
		if g.resized {
			g.resized = false
			p.mu.Unlock()
			g.listener.SizeChanged()
			p.mu.Lock()
		}
		if n := g.unannounced; n > 0 {
			g.unannounced = 0
			p.mu.Unlock()
			g.listener.Granted(n)
			p.mu.Lock()
		}
	}
	p.announcements = nil
	p.announcing = false
	p.mu.Unlock()
}
