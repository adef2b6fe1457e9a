package pool

import (
	"math/bits"
	"slices"
)

const (
	// fewGrants is how many grants have all sizes set anew, and told, with every
	// change. That costs a look at every grant, so with many of them that come and go
	// it would cost their number squared.
	fewGrants = 1000
	// staleness is which part of more grants, or of the surplus, may change before: so
	// it costs a small number of looks for each. Who asks for its size, or for
	// segments, gets what is right at that time. Sizes are only about the surplus, so
	// meanwhile no promise is at risk.
	staleness = 8
)

// areStale reports whether enough has changed. A surplus of less than a segment for
// every so many grants is not worth a look at all of them. The caller holds the lock.
func (p *NetworkBufferPool) areStale() bool {
	moved := p.unpromised() - p.sized
	if p.live <= p.fewGrants {
		return p.changes > 0 || moved != 0
	}
	return p.changes*staleness >= p.live || max(moved, -moved)*staleness > max(p.sized-p.kept, p.live/staleness)
}

// changed is called after every change of the grants. The caller holds the lock.
func (p *NetworkBufferPool) changed() {
	p.changes++
	p.handOn()
}

// handOn gives what has come free to the grants that wait to be admitted, and then
// to those that wait for more, after setting sizes if enough has changed since they
// were. The caller holds the lock.
func (p *NetworkBufferPool) handOn() {
	if p.destroyed {
		return
	}
	p.admit()
	if p.areStale() {
		p.redistribute()
	}
	p.serveWaiting()
}

// settle sets sizes anew if anything has changed since they were. The caller holds
// the lock.
func (p *NetworkBufferPool) settle() {
	if !p.destroyed && (p.changes > 0 || p.unpromised() != p.sized) {
		p.redistribute()
		p.serveWaiting()
	}
}

// Settle brings the sizes of all grants up to date. It is for calling now and then,
// so that they do not lag behind for long; it looks at all grants if there was any
// change since.
func (p *NetworkBufferPool) Settle() {
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	p.settle()
}

// unpromised is what no grant requires, neither an admitted one nor one that is about
// to be, and what destroyed ones have not kept: the surplus, and what is kept. The caller
// holds the lock.
func (p *NetworkBufferPool) unpromised() int {
	return p.beyondClaims(p.total - p.required - p.lingering - p.withheld)
}

// part returns a grant's part of what its user has of the surplus, of which all grants
// of the user could use so much together, and whether it is exact. The caller holds the
// lock.
func (p *NetworkBufferPool) part(g *Grant, ofUser int, all uint64) (part int, isExact bool) {
	quotient, rest := mulDiv(min(uint64(ofUser), all), uint64(min(ofUser, p.appetite(g))), all)
	return int(quotient), rest == 0
}

// sizeNow returns the size of a grant as if all sizes were set now, except that it has
// a segment of what is left of the division only if it has one already. The caller
// holds the lock.
func (p *NetworkBufferPool) sizeNow(g *Grant) int {
	if g.destroyed || g.admission != nil || p.changes == 0 && p.unpromised() == p.sized {
		return g.size
	}
	ofUser, isExact := p.divide().part(g.user)
	if !isExact && g.user.part == ofUser+1 {
		ofUser++
	}
	part, isExact := p.part(g, ofUser, g.user.appetite.upTo(ofUser))
	if size := g.spec.Required + part; isExact || g.size != size+1 {
		return size
	}
	return g.size
}

// resize changes the size of a grant, which is to be told. The caller holds the lock.
func (p *NetworkBufferPool) resize(g *Grant, size int) {
	if size != g.size {
		g.size = size
		g.resized = true
		p.announce(g)
		p.waiting.update(g)
	}
}

// redistribute sets the size of every grant to what it requires plus its part of what
// its user has of the surplus. Each grant of the user weighs as much as it could use, at
// most all of that. Everything is handed out, and each part differs by less than one
// segment from the exact proportion. Of the segments that are left of the division, one
// goes to each grant that has one already, then to others in the order of their
// admission: so a grant that comes or goes does not change the sizes of all others by
// one, each of which would have to be told. Likewise with what is left of the division
// among users. The caller holds the lock and calls serveWaiting.
//
// With one user as in Flink's NetworkBufferPool, but for who gets what is left.
func (p *NetworkBufferPool) redistribute() {
	p.grants = slices.DeleteFunc(p.grants, func(g *Grant) bool { return g.destroyed && g.held == 0 })
	p.users = slices.DeleteFunc(p.users, p.forgets)
	p.redistributeAmongUsers()
	for _, g := range p.grants {
		if !g.destroyed {
			part, isExact := p.part(g, g.user.part, g.user.all)
			g.nextSize, g.isExact = g.spec.Required+part, isExact
			g.user.left -= part
		}
	}
	for _, has := range []bool{true, false} {
		for _, g := range p.grants {
			if !g.destroyed && g.user.left > 0 && !g.isExact && (g.size > g.nextSize) == has {
				g.nextSize++
				g.isExact = true
				g.user.left--
			}
		}
	}
	for _, g := range p.grants {
		if !g.destroyed {
			p.resize(g, g.nextSize)
		}
	}
	p.changes, p.sized = 0, p.unpromised()
	p.steps += len(p.grants) + len(p.users)
}

// redistributeAmongUsers sets the part of every user. The caller holds the lock.
func (p *NetworkBufferPool) redistributeAmongUsers() {
	d := p.divide()
	for _, u := range p.users {
		u.nextPart, u.isExact = d.part(u)
	}
	for _, has := range []bool{true, false} {
		for _, u := range p.users {
			if d.left > 0 && !u.isExact && (u.part > u.nextPart) == has {
				u.nextPart++
				u.isExact = true
				d.left--
			}
		}
	}
	for _, u := range p.users {
		u.part, u.left = u.nextPart, u.nextPart
		u.all = u.appetite.upTo(u.part)
	}
}

// mulDiv returns a*b/c rounded down, without overflow of the product, and the
// remainder; 0 if c is 0. The quotient must fit, as it does if b <= c.
func mulDiv(a, b, c uint64) (quotient, rest uint64) {
	if c == 0 {
		return 0, 0
	}
	hi, lo := bits.Mul64(a, b)
	return bits.Div64(hi, lo, c)
}
