package pool

import "math/bits"

// redistribute sets the size of every grant to what it requires plus its part of
// the surplus, which is what has not been promised to anybody. Each grant weighs
// as much as it could use, at most the whole surplus. Everything is handed out, and
// each part differs by less than one segment from the exact proportion. Of the
// segments that are left of the division, one goes to each grant that has one
// already, then to others in the order of their creation: so a grant that comes or
// goes does not change the sizes of all others by one, each of which would have to be
// told. The caller holds the lock.
//
// As in Flink's NetworkBufferPool, but for who gets what is left.
func (p *NetworkBufferPool) redistribute() {
	surplus := p.total - p.required
	usable := func(g *Grant) uint64 { return uint64(min(surplus, g.spec.Max-g.spec.Required)) }

	var all uint64
	for _, g := range p.grants {
		all += usable(g)
	}
	handOut := min(uint64(surplus), all)
	left := handOut
	sizes := make([]int, len(p.grants))
	isExact := make([]bool, len(p.grants))
	for i, g := range p.grants {
		part, rest := mulDiv(handOut, usable(g), all)
		sizes[i], isExact[i] = g.spec.Required+int(part), rest == 0
		left -= part
	}
	for _, has := range []bool{true, false} {
		for i, g := range p.grants {
			if left > 0 && !isExact[i] && (g.size > sizes[i]) == has {
				sizes[i]++
				isExact[i] = true
				left--
			}
		}
	}
	for i, g := range p.grants {
		if sizes[i] != g.size {
			g.size = sizes[i]
			g.resized = true
			p.announce(g)
		}
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
