package daemon

import (
	"fmt"
	"sync"

	"shuffled/shuffle"
)

// What connections, partitions, gates and inputs take of the daemon's heap, with
// the stacks of their goroutines and what is queued for their client, in bytes.
// A test compares them with what the heap really grows by.
const (
	connectionHeap   = 20 << 10
	partitionHeap    = 4 << 10
	subpartitionHeap = 128
	gateHeap         = 2 << 10
	inputHeap        = 768
)

// An account counts what somebody uses.
type account struct {
	connections, partitions, gates int
	greeting                       int // connections that have not said hello
	memory, control, heap          int64
	promised                       int64 // bytes of segments that partitions require
}

func (a *account) add(b account, sign int) {
	a.connections += sign * b.connections
	a.partitions += sign * b.partitions
	a.gates += sign * b.gates
	a.greeting += sign * b.greeting
	a.memory += int64(sign) * b.memory
	a.control += int64(sign) * b.control
	a.heap += int64(sign) * b.heap
	a.promised += int64(sign) * b.promised
}

// descriptors is how many file descriptors that takes. The second one of a connection
// is that of a new object that waits to be sent to its owner.
func (a *account) descriptors() int64 { return 2 * int64(a.connections+a.partitions+a.gates) }

// A limit bounds one thing that an account counts.
type limit struct {
	name   string // as the operator sets it
	of     func(a *account) int64
	most   int64 // of everybody; 0 for no limit
	shared int64 // of which an eighth is kept for users that have little; 0 for no such share

	perUIDName string
	perUID     int64 // of one user; 0 for no limit
}

// keptPart and littlePart are the parts of a limit that are kept for users that
// have little, and what little is.
const (
	keptPart   = 8
	littlePart = 16
)

// A ledger keeps what is in use within the limits.
type ledger struct {
	limits       []limit
	memory       int64 // of segments
	memoryPerUID int64
	// privileged users are not held back for the sake of others.
	privileged func(uid uint32) bool

	mu     sync.Mutex
	total  account
	perUID map[uint32]*account
}

// newLedger returns an empty ledger for limits that have no zeros, and memory
// bytes of segments.
func newLedger(l Limits, memory int64, privileged func(uid uint32) bool) *ledger {
	count := func(name string, most, perUID int, of func(a *account) int64) limit {
		return limit{name: name, of: of, most: int64(most), shared: int64(most), perUIDName: name + "-per-uid",
			perUID: int64(perUID)}
	}
	bytes := func(name string, most int64, of func(a *account) int64) limit {
		return limit{name: name, of: of, most: most, shared: most}
	}
	return &ledger{
		memory: memory, memoryPerUID: l.MemoryPerUID, privileged: privileged, perUID: make(map[uint32]*account),
		limits: []limit{
			count("--max-connections", l.Connections, l.ConnectionsPerUID,
				func(a *account) int64 { return int64(a.connections) }),
			count("--max-partitions", l.Partitions, l.PartitionsPerUID,
				func(a *account) int64 { return int64(a.partitions) }),
			count("--max-gates", l.Gates, l.GatesPerUID, func(a *account) int64 { return int64(a.gates) }),
			bytes("--max-control-memory", l.ControlMemory, func(a *account) int64 { return a.control }),
			bytes("--max-heap-memory", l.HeapMemory, func(a *account) int64 { return a.heap }),
			bytes("RLIMIT_NOFILE", int64(l.Descriptors), func(a *account) int64 { return a.descriptors() }),
			{name: "--memory", of: func(a *account) int64 { return a.promised }, shared: memory}, // the pool bounds it
			{of: func(a *account) int64 { return a.memory }, perUIDName: "--max-memory-per-uid",
				perUID: l.MemoryPerUID},
			{of: func(a *account) int64 { return int64(a.greeting) },
				perUIDName: "connections without a hello, a quarter of --max-connections",
				perUID:     int64(max(l.Connections/4, min(l.Connections, 16)))},
		},
	}
}

// reserve books use for a user, or returns shuffle.ErrQuotaExceeded with the
// name of the limit and books nothing.
func (l *ledger) reserve(uid uint32, use account) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.perUID[uid]
	if own == nil {
		own = &account{}
	}
	for i := range l.limits {
		limit := &l.limits[i]
		if more := limit.of(&use); more > 0 {
			if err := limit.check(uid, limit.of(own), limit.of(&l.total), more, l.privileged(uid)); err != nil {
				return err
			}
		}
	}
	l.total.add(use, 1)
	own.add(use, 1)
	l.perUID[uid] = own
	return nil
}

// check refuses more of something of which a user and everybody have some.
func (l *limit) check(uid uint32, own, total, more int64, privileged bool) error {
	kept, little := l.shared/keptPart, l.shared/littlePart
	switch {
	case l.most > 0 && more > l.most-total:
		return atLimit(l.name,
			fmt.Errorf("limit %s of the daemon: %d in use (%d by uid %d) and %d more, limit %d: raise it or give some back: %w",
				l.name, total, own, uid, more, l.most, shuffle.ErrQuotaExceeded))
	case l.perUID > 0 && more > l.perUID-own:
		return atLimit(l.perUIDName,
			fmt.Errorf("limit %s of the daemon: %d in use by uid %d and %d more, limit %d: raise it or give some back: %w",
				l.perUIDName, own, uid, more, l.perUID, shuffle.ErrQuotaExceeded))
	case !privileged && kept > 0 && more > l.shared-kept-total && more > little-own:
		return atLimit(l.name,
			fmt.Errorf("limit %s of the daemon: %d in use (%d by uid %d) and %d more, limit %d, of which the last %d are kept for users with less than %d: raise it or give some back: %w",
				l.name, total, own, uid, more, l.shared, kept, little, shuffle.ErrQuotaExceeded))
	}
	return nil
}

// book books what no limit refuses, for a user who has something booked.
func (l *ledger) book(uid uint32, use account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.add(use, 1)
	l.perUID[uid].add(use, 1)
}

// release gives back what reserve has booked.
func (l *ledger) release(uid uint32, use account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if use == (account{}) {
		return // the user may have none
	}
	l.total.add(use, -1)
	own := l.perUID[uid]
	own.add(use, -1)
	if *own == (account{}) {
		delete(l.perUID, uid)
	}
}

// memoryRoom returns how many bytes a user may still reserve.
func (l *ledger) memoryRoom(uid uint32) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	room := l.memoryPerUID
	if own := l.perUID[uid]; own != nil {
		room -= own.memory
	}
	return room
}

// inUse returns what everybody uses together.
func (l *ledger) inUse() account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.total
}

// isShared reports whether several users have anything of the daemon.
func (l *ledger) isShared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.perUID) > 1
}
