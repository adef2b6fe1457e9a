package pool

import (
	"fmt"
	"math"
	"slices"
	"sync"
)

// A NetworkBufferPool is the budget of segments of a daemon, as Flink's class of
// that name without the memory. It counts segments and divides them between
// grants.
//
// What is promised is there: a grant is admitted only when all it requires is free
// and reserved for nobody else, and a surplus is given only of what is free beyond
// all that is reserved. So at any time the segments that are held, by whomever, and
// those that admitted grants may still ask for as required are no more than there
// are, and such a request is always met at once.
//
// All methods may be called from any number of goroutines, also from the
// callbacks of a [GrantListener]. After Destroy, CreateGrant returns
// ErrDestroyed and no grant gets segments any more; they may still be recycled.
type NetworkBufferPool struct {
	total       int
	segmentSize int
	fewGrants   int // the constant of that name, other than in tests

	// Everything under the lock is counting, so one lock serves the promises and
	// the free count. Only redistribution looks at all grants, and none of it lies on
	// the path of data.
	mu        sync.Mutex
	free      int      // segments that no grant holds
	required  int      // what is promised: sum of Required over grants
	reserved  int      // what of it is still to be handed out: sum of Grant.unmet
	withheld  int      // held by somebody without a grant
	kept      int      // for users who have little
	lingering int      // segments that destroyed grants hold
	live      int      // grants that were admitted and not destroyed
	grants    []*Grant // in the order of their admission; destroyed ones stay for a while
	destroyed bool

	admissions admissionQueue
	waiting    waitingGrants

	users     []*user // in the order of their coming; those that have nothing stay for a while
	usersByID map[uint32]*user
	bases     tally // of their fields of these names
	tops      tally

	changes int // of grants and surplus since all sizes were set
	sized   int // what was unpromised then
	steps   int // grants and users looked at in setting sizes, ever

	announcements []*Grant // have something to tell their listeners
	announcing    bool     // a goroutine is at it
}

// NetworkStats is a consistent snapshot of the counters of a NetworkBufferPool.
// All are zero after Destroy.
type NetworkStats struct {
	Total     int // segments of the budget
	Available int // segments that no grant holds
	Reserved  int // segments among them that grants require and do not hold yet
	Used      int // segments that grants hold, destroyed ones included
	Required  int // segments promised to grants; never more than Total
	Withheld  int // segments whose worth of memory somebody holds without a grant
	Grants    int // grants that were not destroyed
	Waiting   int // grants that wait to be admitted
}

// NewNetworkBufferPool returns a budget of total segments of segmentSize bytes.
// It returns ErrInvalidArgument if one of them is not positive or there are
// 2^31 segments or more.
func NewNetworkBufferPool(total, segmentSize int) (*NetworkBufferPool, error) {
	if total <= 0 || total > math.MaxInt32 {
		return nil, fmt.Errorf("network buffer pool: total is %d, want 1 to %d (--memory, --segment-size): %w", total,
			math.MaxInt32, ErrInvalidArgument)
	}
	if segmentSize <= 0 {
		return nil, fmt.Errorf("network buffer pool: segment size is %d, want a positive number of bytes (--segment-size): %w", segmentSize, ErrInvalidArgument)
	}
	return &NetworkBufferPool{total: total, segmentSize: segmentSize, fewGrants: fewGrants, free: total, sized: total,
		usersByID: make(map[uint32]*user)}, nil
}

// Destroy ends the pool: no grants are created and no segments are handed out
// any more. It does not destroy the grants. It may be called more than once.
func (p *NetworkBufferPool) Destroy() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.destroyed = true
	for _, g := range p.grants {
		g.wish = 0
		p.waiting.update(g)
	}
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
		Reserved:  p.reserved,
		Used:      p.total - p.free,
		Required:  p.required,
		Withheld:  p.withheld,
		Grants:    p.live,
		Waiting:   p.admissions.Len(),
	}
}

// A Holder is a grant that holds segments, as LargestHolders saw it.
type Holder struct {
	Listener GrantListener // of the grant
	Held     int           // above 0
}

// LargestHolders returns up to n grants that hold most, the largest first,
// destroyed ones included. It looks at all grants.
func (p *NetworkBufferPool) LargestHolders(n int) []Holder {
	p.mu.Lock()
	defer p.mu.Unlock()
	var largest []Holder
	for _, g := range p.grants {
		at := len(largest)
		for at > 0 && largest[at-1].Held < g.held {
			at--
		}
		if g.held > 0 && at < n {
			largest = slices.Insert(largest, at, Holder{g.listener, g.held})
			largest = largest[:min(len(largest), n)]
		}
	}
	return largest
}

// destroyGrant takes a promise back, or a wish to be admitted. The caller holds the
// lock and calls changed.
func (p *NetworkBufferPool) destroyGrant(g *Grant) {
	if g.destroyed {
		return
	}
	g.destroyed = true
	g.resized, g.admittedNews = false, false
	g.wish = 0
	p.waiting.update(g)
	u := g.user
	u.live--
	if g.admission != nil {
		p.admissions.remove(g)
		return
	}
	p.live--
	unmet := max(0, g.spec.Required-g.held)
	p.required -= g.spec.Required
	p.reserved -= unmet
	u.required -= g.spec.Required
	p.charge(u, -unmet-g.unannounced)
	// The listener has not been told of these, so nobody else could return them.
	p.free += g.unannounced
	g.held -= g.unannounced
	g.unannounced = 0
	p.lingering += g.held
	u.lingers += g.held
	u.appetite.remove(p.appetite(g))
	p.weigh(u)
}

// appetite is what a grant can use beyond what it requires, at most the budget.
func (p *NetworkBufferPool) appetite(g *Grant) int {
	return min(p.total, g.spec.Max-g.spec.Required)
}

// move charges n segments to the grant, or gives -n back. The caller holds the
// lock.
func (p *NetworkBufferPool) move(g *Grant, n int) {
	unmet := g.unmet()
	g.held += n
	p.free -= n
	unmet = g.unmet() - unmet
	p.reserved += unmet
	p.charge(g.user, n+unmet)
	if g.destroyed {
		p.lingering += n
		g.user.lingers += n
		p.weigh(g.user)
	}
	if p.free < p.reserved || p.free > p.total || g.held < 0 {
		panic(fmt.Sprintf("pool: %d of %d segments free, %d reserved, %d held by a grant", p.free, p.total, p.reserved,
			g.held))
	}
}

// lendable returns how many segments are free beyond what is reserved for those
// who require it, what is claimed for grants that are about to be admitted, and what
// somebody has without a grant. The caller holds the lock.
func (p *NetworkBufferPool) lendable() int {
	return p.beyondClaims(p.free - p.reserved - p.withheld)
}

// takeable returns how many of n segments the grant may have now: all that it
// requires, and beyond that what is spare, up to its size. The caller holds the
// lock.
func (p *NetworkBufferPool) takeable(g *Grant, n int) int {
	n = max(0, min(n, g.size-g.held))
	needed := min(n, g.unmet())
	return needed + min(n-needed, p.spareFor(g.user))
}

// grant gives the grant n segments of its wish, which it is to be told. The caller
// holds the lock.
func (p *NetworkBufferPool) grant(g *Grant, n int) {
	p.move(g, n)
	g.wish -= n
	g.unannounced += n
	p.announce(g)
	p.waiting.update(g)
}

// serveWaiting gives what can be lent to the grants that wait for it, so that no
// segment stays free that a waiting grant may have: if there is none for the user who has
// least, there is none for another. It is called after every change that can make
// segments spare. The caller holds the lock.
func (p *NetworkBufferPool) serveWaiting() {
	for {
		g := p.waiting.first()
		if g == nil {
			return
		}
		n := p.takeable(g, g.wish)
		if n == 0 {
			return
		}
		p.grant(g, n)
	}
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
		if g.admittedNews {
			g.admittedNews = false
			p.mu.Unlock()
			g.admitted(g)
			p.mu.Lock()
		}
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
