package pool

import "math/bits"

// redistribute sets the size of every grant to what it requires plus its part of
// the surplus, which is what has not been promised to anybody. Each grant weighs
// as much as it could use, at most the whole surplus. Rounding is cumulative, so
// that everything is handed out and each part differs by less than one segment
// from the exact proportion; which grants get the odd ones follows from the order
// of their creation. The caller holds the lock.
//
// As in Flink's NetworkBufferPool.
func (p *NetworkBufferPool) redistribute() {
	surplus := p.total - p.required
	usable := func(g *Grant) uint64 { return uint64(min(surplus, g.spec.Max-g.spec.Required)) }

	var all uint64
	for _, g := range p.grants {
		all += usable(g)
	}
	handOut := min(uint64(surplus), all)
	var passed, given uint64
	for _, g := range p.grants {
		passed += usable(g)
		share := mulDiv(handOut, passed, all) - given
		given += share
		if size := g.spec.Required + int(share); size != g.size {
			g.size = size
			g.resized = true
			p.announce(g)
		}
	}
}

// mulDiv returns a*b/c rounded down, without overflow of the product, and 0 if c
// is 0. The quotient must fit, as it does if b <= c.
func mulDiv(a, b, c uint64) uint64 {
	if c == 0 {
		return 0
	}
	hi, lo := bits.Mul64(a, b)
	quotient, _ := bits.Div64(hi, lo, c)
	return quotient
}
