package pool

import "math/bits"

// appetites has how much grants can use beyond what they require, so that what all of
// them can use of any surplus is known without a look at each.
type appetites struct {
	// By the number of bits of the appetite.
	classes [32]appetiteClass
}

type appetiteClass struct {
	grants map[int]int // by appetite
	count  uint64      // of grants
	sum    uint64      // of their appetites
}

// appetite is what a grant can use beyond what it requires, at most the budget.
func (p *NetworkBufferPool) appetite(g *Grant) int {
	return min(p.total, g.spec.Max-g.spec.Required)
}

func (a *appetites) add(appetite int) {
	c := &a.classes[bits.Len(uint(appetite))]
	if c.grants == nil {
		c.grants = make(map[int]int)
	}
	c.grants[appetite]++
	c.count++
	c.sum += uint64(appetite)
}

func (a *appetites) remove(appetite int) {
	c := &a.classes[bits.Len(uint(appetite))]
	if c.grants[appetite]--; c.grants[appetite] == 0 {
		delete(c.grants, appetite)
	}
	c.count--
	c.sum -= uint64(appetite)
}

// of returns the sum of what the grants can use of a surplus, each as if it had it
// alone.
func (a *appetites) of(surplus int) (all uint64) {
	own := bits.Len(uint(surplus))
	for class := range a.classes {
		c := &a.classes[class]
		switch {
		case class < own:
			all += c.sum
		case class > own:
			all += c.count * uint64(surplus)
		default:
			for appetite, count := range c.grants {
				all += uint64(count) * uint64(min(appetite, surplus))
			}
		}
	}
	return all
}
