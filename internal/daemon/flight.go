package daemon

import (
	"sync"
	"time"

	"shuffled/ipc"
)

// What may be under way to one client: packets that it has not received take
// memory that is charged to the daemon, and descriptors count against what the
// daemon's user may have under way (see unix(7), ETOOMANYREFS).
const (
	flightBytes       = ipc.MaxMessageSize + 32<<10
	flightDescriptors = 32
	// freeFlight is what a client that has received everything gets in any case.
	freeFlight = 4096 + ipc.PacketCost
)

// flights bound what is under way to all clients together, and to those of one
// user, which can have half of it.
type flights struct {
	limit ipc.Load
	now   func() time.Time

	mu     sync.Mutex
	total  ipc.Load
	perUID map[uint32]*ipc.Load
	active map[*flight]struct{} // that have something under way
	look   time.Time            // when all of them may be refreshed again
}

// newFlights returns the bounds that follow from the limits of a server.
func newFlights(l Limits) *flights {
	return &flights{
		limit: ipc.Load{Bytes: max(l.HeapMemory/4, 4*flightBytes),
			Descriptors: int64(max(l.Descriptors/2, 2*flightDescriptors))},
		now: time.Now, perUID: make(map[uint32]*ipc.Load), active: make(map[*flight]struct{}),
	}
}

// A flight is what is under way to one client. Its methods may be called from any
// number of goroutines.
type flight struct {
	all  *flights
	uid  uint32
	conn *ipc.Conn
	// operator clients are served whatever others leave unread.
	operator bool

	// The fields below are guarded by all.mu.
	under ipc.Load
}

// Take books more, once there is room for it: it waits for the client to read, or
// for others. It returns false when ended is closed.
func (f *flight) Take(more ipc.Load, ended <-chan struct{}) bool {
	const shortest, longest = 50 * time.Microsecond, 50 * time.Millisecond
	for pause := shortest; !f.tryTake(more); pause = min(2*pause, longest) {
		if !ipc.Sleep(pause, ended) {
			return false
		}
		if f.conn.PeerHasEnded() {
			return true // sending finds out
		}
	}
	return true
}

// tryTake books more if there is room.
func (f *flight) tryTake(more ipc.Load) bool {
	a := f.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.under != (ipc.Load{}) && !f.under.Fits(more, ipc.Load{Bytes: flightBytes, Descriptors: flightDescriptors}) {
		f.refresh()
		if f.under != (ipc.Load{}) {
			return false
		}
	}
	if !a.hasRoom(f, more) {
		a.refreshAll()
		if !a.hasRoom(f, more) {
			return false
		}
	}
	if f.under == (ipc.Load{}) {
		a.active[f] = struct{}{}
	}
	a.book(f, more, 1)
	return true
}

// hasRoom reports whether there is room beside what is under way to others. A
// client that has received everything finds room also where the bounds are used
// up, by as much again, and an operator and a user with little under way in any case:
// those who do not read hold up none that do.
func (a *flights) hasRoom(f *flight, more ipc.Load) bool {
	var own ipc.Load
	if l := a.perUID[f.uid]; l != nil {
		own = *l
	}
	most := a.limit
	if f.under == (ipc.Load{}) {
		if f.operator || more.Bytes <= freeFlight && more.Descriptors == 0 {
			return true
		}
		little := ipc.Load{Bytes: max(most.Bytes/littlePart, flightBytes), Descriptors: max(most.Descriptors/littlePart,
			ipc.MessageDescriptors)}
		if own.Fits(more, little) {
			return true
		}
		most = ipc.Load{Bytes: 2 * most.Bytes, Descriptors: 2 * most.Descriptors}
	}
	return a.total.Fits(more, most) &&
		own.Fits(more, ipc.Load{Bytes: most.Bytes / 2, Descriptors: most.Descriptors / 2})
}

func (a *flights) book(f *flight, more ipc.Load, sign int64) {
	f.under.Add(more, sign)
	a.total.Add(more, sign)
	own := a.perUID[f.uid]
	if own == nil {
		own = &ipc.Load{}
		a.perUID[f.uid] = own
	}
	own.Add(more, sign)
	if *own == (ipc.Load{}) {
		delete(a.perUID, f.uid)
	}
}

// setOperator says whether the client is an operator's.
func (f *flight) setOperator(operator bool) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.operator = operator
}

// GiveBack unbooks what was not sent after all.
func (f *flight) GiveBack(less ipc.Load) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.under != (ipc.Load{}) { // it may have been refreshed
		f.all.book(f, ipc.Load{Bytes: min(less.Bytes, f.under.Bytes),
			Descriptors: min(less.Descriptors, f.under.Descriptors)}, -1)
		f.forgetIfEmpty()
	}
}

// end unbooks everything: the connection is closed, and the kernel has dropped
// what was under way.
func (f *flight) end() {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.clear()
}

func (f *flight) clear() {
	f.all.book(f, f.under, -1)
	f.forgetIfEmpty()
}

func (f *flight) forgetIfEmpty() {
	if f.under == (ipc.Load{}) {
		delete(f.all.active, f)
	}
}

// refresh looks whether the client has received everything. The lock is held.
func (f *flight) refresh() {
	if f.under == (ipc.Load{}) {
		return
	}
	if f.conn.Unreceived() == 0 {
		f.clear()
	}
}

// refreshAll does so for all clients, not more often than it is worth. The lock
// is held.
func (a *flights) refreshAll() {
	start := a.now()
	if start.Before(a.look) {
		return
	}
	for f := range a.active {
		f.refresh()
	}
	took := a.now().Sub(start)
	a.look = start.Add(max(20*took, 5*time.Millisecond))
}

// look returns what is under way to the client now.
func (f *flight) look() ipc.Load {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.refresh()
	return f.under
}
