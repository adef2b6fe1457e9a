package pool

import (
	"container/list"
	"fmt"
)

// mostAdmissions is how many grants can wait to be admitted; all of them are looked
// at whenever segments come back.
const mostAdmissions = 1024

// An admissionQueue has the grants that wait to be admitted, first come first
// served. The first of them that can be admitted once everybody has given back what
// exceeds their sizes have a claim: what comes back is kept for them. Those that can
// only be admitted once others have ended claim nothing and hold nobody up.
type admissionQueue struct {
	list.List                // of *Grant
	claimed   [standings]int // sum of Required over those that claim, by their standing
}

func (q *admissionQueue) add(g *Grant) { g.admission = q.PushBack(g) }

func (q *admissionQueue) remove(g *Grant) {
	q.Remove(g.admission)
	g.admission = nil
	q.setClaim(g, false)
}

func (q *admissionQueue) setClaim(g *Grant, claims bool) {
	if claims == g.claims {
		return
	}
	g.claims = claims
	if claims {
		q.claimed[g.standing] += g.spec.Required
	} else {
		q.claimed[g.standing] -= g.spec.Required
	}
}

// allClaimed is what is claimed by grants of whatever standing.
func (q *admissionQueue) allClaimed() (n int) {
	for _, claimed := range q.claimed {
		n += claimed
	}
	return n
}

// CreateGrant promises spec.Required segments to a new grant and redistributes
// the surplus. The listener hears of everything that happens to the grant from
// then on, possibly before CreateGrant has returned; it does not hear of the
// first size, which is to be read with [Grant.Size].
//
// It returns ErrInsufficientBuffers if fewer are free and reserved for nobody,
// ErrInvalidArgument for a spec outside its range or no listener, and
// ErrDestroyed after Destroy.
func (p *NetworkBufferPool) CreateGrant(spec GrantSpec, listener GrantListener) (*Grant, error) {
	return p.newGrant(spec, listener, nil)
}

// QueueGrant is CreateGrant of a grant that waits while fewer segments than it
// requires are free and reserved for nobody: admitted is called with it, as a method
// of the listener is, once they are there, possibly before QueueGrant has returned.
// Until that, others are asked to give back what exceeds their sizes, which shrink as
// if it had been admitted. Who does not want to wait any longer calls [Grant.GiveUp]
// or Destroy.
//
// Those that wait are admitted in the order in which they came, except that nobody
// waits behind one for which there would be too little if all gave back what they
// need not have.
func (p *NetworkBufferPool) QueueGrant(spec GrantSpec, listener GrantListener, admitted func(*Grant)) (g *Grant,
	waits bool, err error) {
	g, err = p.newGrant(spec, listener, admitted)
	return g, err == nil && !g.admittedAtOnce, err
}

// newGrant admits a grant, or has it wait if admitted is set.
func (p *NetworkBufferPool) newGrant(spec GrantSpec, listener GrantListener, admitted func(*Grant)) (*Grant, error) {
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
	u := p.userOf(spec)
	g := &Grant{pool: p, spec: spec, user: u, listener: listener, size: spec.Required, admitted: admitted}
	g.standing = p.standingOf(u, spec)
	if spec.Required <= p.lendable()-p.keptFrom(g.standing) {
		g.admittedAtOnce = true
		p.enter(u)
		p.promise(g)
		p.changed()
		g.size = p.sizeNow(g) // if sizes were not set
		g.resized = false
		return g, nil
	}
	if admitted == nil || spec.Required > p.total || p.admissions.Len() >= mostAdmissions {
		return nil, p.insufficient(g)
	}
	isFirst := p.admissions.Len() == 0
	p.enter(u)
	p.admissions.add(g)
	p.changed()
	if isFirst {
		p.settle() // the others are to hear of it now
	}
	return g, nil
}

// insufficient says why a grant is not admitted. The caller holds the lock.
func (p *NetworkBufferPool) insufficient(g *Grant) error {
	held := ""
	if p.withheld > 0 {
		held = fmt.Sprintf("; the memory of %d is held without a grant", p.withheld)
	}
	kept := p.keptFrom(g.standing)
	if kept > 0 {
		held += fmt.Sprintf("; the last %d are kept for users that have little", kept)
	}
	return fmt.Errorf("%w: required %d, but only %d available: of %d segments of %d bytes (--memory, --segment-size), %d are in use and %d more reserved for partitions that require them%s",
		ErrInsufficientBuffers, g.spec.Required, max(0, p.lendable()-kept), p.total, p.segmentSize, p.total-p.free,
		p.reserved+p.admissions.allClaimed(), held)
}

// GiveUp ends the wait of a grant to be admitted: the grant is destroyed, and the
// error, which wraps ErrInsufficientBuffers, says what it would have needed. It
// returns nil, and does nothing, if the grant does not wait any more.
func (g *Grant) GiveUp() error {
	p := g.pool
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	if g.admission == nil {
		return nil
	}
	p.destroyGrant(g)
	err := p.insufficient(g)
	p.changed()
	return err
}

// promise makes a grant one that has been admitted. The caller holds the lock, has
// found enough for it, and calls changed.
func (p *NetworkBufferPool) promise(g *Grant) {
	p.live++
	p.required += g.spec.Required
	p.reserved += g.spec.Required
	p.grants = append(p.grants, g)
	u := g.user
	u.required += g.spec.Required
	p.charge(u, g.spec.Required)
	u.appetite.add(p.appetite(g))
	p.weigh(u)
}

// admit admits the grants for which there is enough now, and settles which of the
// others have a claim. The caller holds the lock.
func (p *NetworkBufferPool) admit() {
	for e := p.admissions.Front(); e != nil; e = e.Next() {
		p.admissions.setClaim(e.Value.(*Grant), false)
	}
	var next *list.Element
	for e := p.admissions.Front(); e != nil; e = next {
		next = e.Next()
		g := e.Value.(*Grant)
		g.standing = p.standingOf(g.user, g.spec)
		switch n := g.spec.Required + p.keptFrom(g.standing); {
		case n <= p.lendable():
			p.admissions.remove(g)
			p.promise(g)
			p.changes++
			g.admittedNews = true
			p.announce(g)
		case n <= p.unpromised():
			p.admissions.setClaim(g, true)
		}
	}
}
