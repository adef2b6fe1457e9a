package daemon

import (
	"errors"
	"sync/atomic"
	"time"

	"shuffled/memseg"
	"shuffled/pool"
)

const (
	// leftFirstPause and leftLastPause bound the pauses between two looks at what
	// others still hold.
	leftFirstPause = 2 * time.Millisecond
	leftLastPause  = time.Second
	// unknownHoldersTime is how long an object is kept whose holders the kernel
	// does not tell: whoever is honest has unmapped it by then.
	unknownHoldersTime = 5 * time.Second
)

// A leftBehind is what remains of a partition or a gate that was given up while
// somebody still has its objects mapped or open, or a descriptor of them on its
// way to somebody. It stays booked for its creator until nobody has: honest peers unmap
// within moments, others at their death. The books own it; who made it uses it no
// more.
type leftBehind struct {
	name     string // for the log
	uid      uint32
	pid      int32
	memfd    *memseg.Memfd // nil where there is none, or nobody holds it any more
	doorbell *memseg.Memfd // the same
	use      account       // booked in the ledger
	grant    *pool.Grant   // with what is still granted of it, or nil
	charged  atomic.Int64  // segments of grant
	backed   atomic.Int64  // bytes that the kernel holds for memfd, at the last look
	// takes are the parts of memfd whose memory is taken away while somebody holds
	// it, and again when it was brought back; stays is how many bytes the kernel
	// may hold for the rest.
	takes []byteRange
	stays int64
	// control is how many bytes queues and markers take, which stay booked: a peer that
	// has not heard of the end yet stores there, and uses nothing that it was not given.
	control int64

	since, due time.Time
	pause      time.Duration
	booked     int64 // beyond stays, as of the last look
	remains    int64 // of it, what could not be taken away
}

// A byteRange is a part of an object.
type byteRange struct{ start, end int64 }

// leave takes over a leftBehind and gives back what nobody holds, now and as soon
// as that is so.
func (b *books) leave(l *leftBehind) {
	for _, m := range []*memseg.Memfd{l.memfd, l.doorbell} {
		if m != nil {
			m.Retire()
		}
	}
	l.since, l.pause = time.Now(), leftFirstPause
	if b.settle(l) {
		return
	}
	l.takeAway(b)
	switch {
	case l.grant == nil:
	case l.stays == 0:
		l.reclaim()
	default:
		l.grant.Destroy() // what it promises; what is held stays charged
		l.charged.Store(int64(l.grant.Held()))
	}
	l.due = l.since.Add(l.pause)
	l.remains = l.excess()
	if !b.keep(l) {
		b.abandon(l)
	}
}

// settle gives back what nobody holds any more, and reports whether that is all of
// it.
func (b *books) settle(l *leftBehind) bool {
	if l.memfd != nil && l.isAlone(l.memfd) {
		_ = l.memfd.Close()
		l.memfd = nil
	}
	if l.memfd == nil {
		l.takes = nil
		l.reclaim()
	}
	if l.doorbell != nil && l.isAlone(l.doorbell) {
		_ = l.doorbell.Close()
		l.doorbell = nil
	}
	if l.memfd != nil || l.doorbell != nil {
		return false
	}
	b.server.ledger.release(l.uid, l.use)
	return true
}

// abandon gives everything back, whoever holds it: the server is closed.
func (b *books) abandon(l *leftBehind) {
	for _, m := range []*memseg.Memfd{l.memfd, l.doorbell} {
		if m != nil {
			_ = m.Close()
		}
	}
	l.memfd, l.doorbell = nil, nil
	l.reclaim()
	b.server.ledger.release(l.uid, l.use)
}

// takeAway gives memory to the kernel that somebody still has mapped. If a part cannot
// be taken, those after it stay: readers look at the first one to know of the others.
func (l *leftBehind) takeAway(b *books) {
	for _, part := range l.takes {
		if err := l.memfd.Punch(part.start, part.end-part.start); err != nil {
			b.server.log.Warn("give memory back", "object", l.name, "error", err)
			return
		}
	}
}

// excess is how much the kernel holds beyond what stays.
func (l *leftBehind) excess() int64 {
	if l.memfd == nil {
		return 0
	}
	backed, _ := l.memfd.BackedBytes()
	l.backed.Store(backed)
	return max(0, backed-l.stays)
}

func (l *leftBehind) reclaim() {
	if l.grant != nil {
		l.grant.Reclaim()
		l.grant = nil
		l.charged.Store(0)
	}
}

func (l *leftBehind) isAlone(m *memseg.Memfd) bool {
	alone, err := m.Alone()
	if errors.Is(err, memseg.ErrUnknownHolders) {
		return time.Since(l.since) >= unknownHoldersTime
	}
	return alone
}

// again looks once more. It returns how much memory there is that should not be,
// how much of that is new, and whether all is settled.
func (b *books) again(l *leftBehind, now time.Time) (excess, fresh int64, settled bool) {
	if b.settle(l) {
		return 0, 0, true
	}
	excess = l.excess()
	fresh = max(0, excess-max(l.remains, l.control))
	l.remains = 0
	l.pause = min(2*l.pause, leftLastPause)
	if excess > 0 {
		l.takeAway(b)
		l.remains = l.excess()
		l.pause = hotPause
	}
	l.due = now.Add(l.pause)
	return excess, fresh, false
}
