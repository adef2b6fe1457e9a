package daemon

import "sync"

// The books know what memory the kernel holds for clients beyond what they were
// granted: what they brought into a region by touching it, what was left behind
// by partitions that were given up, and what the workers of an earlier daemon
// still have. It is taken off what the pool may lend, and away from them where
// that is possible.
type books struct {
	server *Server
	wake   chan struct{} // has an element if there is something new to look at

	mu     sync.Mutex
	closed bool
	left   map[*leftBehind]struct{}
	ended  []*hostedRegion // lately, to be looked at soon
	totals bookTotals
}

// bookTotals are bytes.
type bookTotals struct {
	excess  int64  // in regions, beyond what was granted, as of the last looks
	left    int64  // brought back into what was left behind
	earlier int64  // held of an earlier daemon's
	taken   uint64 // ever found beyond what was granted
}

func (b *books) init(s *Server) {
	b.server, b.wake, b.left = s, make(chan struct{}, 1), make(map[*leftBehind]struct{})
}

// keep adds a leftBehind, unless the server is closed.
func (b *books) keep(l *leftBehind) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.left[l] = struct{}{}
	b.nudge()
	return true
}

func (b *books) nudge() {
	select {
	case b.wake <- struct{}{}:
	default: // it is about to look
	}
}

// lookSoon has a region looked at whose partition has ended, or whose producer has
// stopped: what nobody reads is taken back.
func (b *books) lookSoon(r *hostedRegion) {
	b.mu.Lock()
	b.ended = append(b.ended, r)
	b.mu.Unlock()
	b.nudge()
}

// close gives up everything. Nothing is left behind after it.
func (b *books) close() {
	b.mu.Lock()
	b.closed = true
	left := b.left
	b.left = nil
	b.mu.Unlock()
	for l := range left {
		b.abandon(l)
	}
}

// book changes totals, and with them what the pool may lend. No lock is held.
func (b *books) book(change func(t *bookTotals)) {
	b.mu.Lock()
	change(&b.totals)
	t := b.totals
	b.mu.Unlock()
	size := int64(b.server.config.SegmentSize)
	// Calls may overtake each other: the last one tells of the last change.
	b.server.pool.SetWithheld(int((t.excess + t.left + t.earlier + size - 1) / size))
}

// A leftStats is what the books have of things left behind.
type leftStats struct {
	objects  int
	segments int // that are still charged to their grants
	backed   int64
}

func (b *books) stats() (t bookTotals, l leftStats) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for left := range b.left {
		l.objects++
		l.segments += int(left.charged.Load())
		l.backed += left.backed.Load()
	}
	return b.totals, l
}
