package pool

import "slices"

// poolUse remembers what a LocalBufferPool has needed since the calls of GiveBackIdle
// before the next. It is guarded by the pool's lock.
type poolUse struct {
	now, before useSpan
}

// A useSpan is the time between two calls.
type useSpan struct {
	leastFree int  // segments that were free all the time
	isWanted  bool // somebody has wanted a segment
}

// handedOut notes how many segments are left after one was taken.
func (u *poolUse) handedOut(free int) {
	u.now.leastFree = min(u.now.leastFree, free)
}

func (u *poolUse) wanted() { u.now.isWanted = true }

// next begins another span, with so many free segments, and returns what held in
// the two before.
func (u *poolUse) next(free int) useSpan {
	both := useSpan{min(u.now.leastFree, u.before.leastFree, free), u.now.isWanted || u.before.isWanted}
	u.before, u.now = u.now, useSpan{leastFree: free}
	return both
}

// GiveBackIdle gives those segments back to the source that have been free all the
// time since the last call but one: all if nobody has wanted any in that time, and
// else all but the stock that the pool keeps. It is for being called now and then, so
// that a pool becomes small when its user does little. One that is idle keeps none, and
// fetches some when it is used again.
func (p *LocalBufferPool) GiveBackIdle() {
	p.mu.Lock()
	unused := p.use.next(p.free.len())
	keep := p.batch()
	if !unused.isWanted {
		keep, p.drawing = 0, false
	}
	idle := p.takeOut(unused.leastFree - keep)
	p.use.now.leastFree = p.free.len()
	p.mu.Unlock()
	slices.Sort(idle) // neighbours make fewer and larger holes
	p.giveBack(idle)
}
