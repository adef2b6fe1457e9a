package pool

import (
	"math/bits"
	"slices"
)

// staleness is which part of the grants or of the surplus may change before sizes
// are set anew: with fewer grants they always are. Setting them costs a look at
// every grant, so doing it for each of many grants that come or go would cost their
// number squared; like this it costs a small number of looks for each. Sizes are only
// about the surplus, so meanwhile no promise is at risk.
const staleness = 8

// areStale reports whether enough has changed. A surplus of less than a segment for
// every so many grants is not worth a look at all of them. The caller holds the lock.
func (p *NetworkBufferPool) areStale() bool {
	if p.changes > 0 && p.changes*staleness >= p.live {
		return true
	}
	moved := p.surplus() - p.sizedSurplus
	return max(moved, -moved)*staleness > max(p.sizedSurplus, p.live/staleness)
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
	if !p.destroyed && (p.changes > 0 || p.surplus() != p.sizedSurplus) {
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

// surplus is what no grant requires, neither an admitted one nor one that is about to
// be, and what destroyed ones have not kept. The caller holds the lock.
func (p *NetworkBufferPool) surplus() int {
	return max(0, p.total-p.required-p.lingering-p.admissions.claimed-p.withheld)
}

// sizeNewcomer gives a grant about the size that setting all sizes would. The caller
// holds the lock.
func (p *NetworkBufferPool) sizeNewcomer(g *Grant) {
	surplus := p.surplus()
	usable := uint64(min(surplus, g.spec.Max-g.spec.Required))
	all := p.sizedUsable + usable
	p.sizedUsable = all
	part, _ := mulDiv(min(uint64(surplus), all), usable, all)
	g.size = g.spec.Required + int(part)
}

// redistribute sets the size of every grant to what it requires plus its part of
// the surplus. Each grant weighs as much as it could use, at most the whole surplus.
// Everything is handed out, and each part differs by less than one segment from the
// exact proportion. Of the segments that are left of the division, one goes to each
// grant that has one already, then to others in the order of their admission: so a
// grant that comes or goes does not change the sizes of all others by one, each of
// which would have to be told. The caller holds the lock and calls serveWaiting.
//
// As in Flink's NetworkBufferPool, but for who gets what is left.
func (p *NetworkBufferPool) redistribute() {
	p.grants = slices.DeleteFunc(p.grants, func(g *Grant) bool { return g.destroyed && g.held == 0 })
	surplus := p.surplus()
	usable := func(g *Grant) uint64 {
		if g.destroyed {
			return 0
		}
		return uint64(min(surplus, g.spec.Max-g.spec.Required))
	}
	var all uint64
	for _, g := range p.grants {
		all += usable(g)
	}
	handOut := min(uint64(surplus), all)
	left := handOut
	for _, g := range p.grants {
		part, rest := mulDiv(handOut, usable(g), all)
		g.nextSize, g.isExact = g.spec.Required+int(part), rest == 0
		left -= part
	}
	for _, has := range []bool{true, false} {
		for _, g := range p.grants {
			if left > 0 && !g.isExact && (g.size > g.nextSize) == has {
				g.nextSize++
				g.isExact = true
				left--
			}
		}
	}
	for _, g := range p.grants {
		if g.nextSize != g.size && !g.destroyed {
			g.size = g.nextSize
			g.resized = true
			p.announce(g)
			p.waiting.update(g)
		}
	}
	p.changes, p.sizedSurplus, p.sizedUsable = 0, surplus, all
	p.steps += len(p.grants)
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
