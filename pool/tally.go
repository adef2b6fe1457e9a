package pool

// tallyBits is how many bits a number in a tally has at most.
const tallyBits = 32

// A tally is a multiset of numbers that knows what they add up to, each counted up to
// any bound, without a look at each. It is a tree by their bits, from the highest on.
// The zero value is empty.
type tally struct {
	count  uint64
	sum    uint64
	halves [2]*tally // of those whose next bit is 0, and 1; nil if there are none
}

var emptyTally tally

func (t *tally) add(n int)    { t.change(uint64(n), 1) }
func (t *tally) remove(n int) { t.change(uint64(n), ^uint64(0)) }

func (t *tally) change(n, by uint64) {
	t.count += by
	t.sum += by * n
	for bit := tallyBits - 1; bit >= 0; bit-- {
		half := &t.halves[n>>bit&1]
		if *half == nil {
			*half = &tally{}
		}
		t = *half
		t.count += by
		t.sum += by * n
		if t.count == 0 {
			*half = nil
			return
		}
	}
}

// upTo returns the sum of all numbers, each counted as bound if it is above.
func (t *tally) upTo(bound int) uint64 {
	w := tallyWalk{at: t}
	for bit := tallyBits - 1; bit >= 0; bit-- {
		w.turn(uint64(bound) >> bit & 1)
	}
	return w.upTo(uint64(bound))
}

// A tallyWalk goes down a tally towards a bound, bit by bit.
type tallyWalk struct {
	at    *tally // numbers that begin with the bits so far
	below uint64 // sum of those before them
	above uint64 // count of those behind them
}

func (w *tallyWalk) half(bit uint64) *tally {
	if half := w.at.halves[bit]; half != nil {
		return half
	}
	return &emptyTally
}

func (w *tallyWalk) turn(bit uint64) {
	if bit == 1 {
		w.below += w.half(0).sum
	} else {
		w.above += w.half(1).count
	}
	w.at = w.half(bit)
}

// upTo is that of the tally, for a bound that is the bits so far and, unless these are
// all, zeros behind them.
func (w *tallyWalk) upTo(bound uint64) uint64 { return w.below + bound*(w.above+w.at.count) }

// waterLevel returns the highest level up to which no more than amount can be poured on
// the bases, none of them above its top, and what is left of the amount then. Bases and
// tops are of the same number. It is the highest number there is if all can be filled.
func waterLevel(bases, tops *tally, amount int) (level, left int) {
	b, t := tallyWalk{at: bases}, tallyWalk{at: tops}
	poured := uint64(0)
	for bit := tallyBits - 1; bit >= 0; bit-- {
		nextB, nextT, next := b, t, uint64(level)|1<<bit
		nextB.turn(1)
		nextT.turn(1)
		if n := nextT.upTo(next) - nextB.upTo(next); n <= uint64(amount) {
			b, t, level, poured = nextB, nextT, int(next), n
		} else {
			b.turn(0)
			t.turn(0)
		}
	}
	return level, amount - int(poured)
}
