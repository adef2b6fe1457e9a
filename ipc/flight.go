package ipc

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// What may be under way to one client: packets that it has not received take
// memory that is charged to the daemon, and descriptors count against what the
// daemon's user may have under way (see unix(7), ETOOMANYREFS).
const (
	flightBytes       = MaxMessageSize + 32<<10
	flightDescriptors = 32
	// packetCost is what the kernel takes for a packet beside its bytes.
	packetCost = 1024
	// freeFlight is what a client that has received everything gets in any case.
	freeFlight = 4096 + packetCost
)

// A load is what is under way.
type load struct {
	bytes       int64
	descriptors int64
}

func (l *load) add(other load, sign int64) {
	l.bytes += sign * other.bytes
	l.descriptors += sign * other.descriptors
}

func (l load) fits(more load, limit load) bool {
	return l.bytes+more.bytes <= limit.bytes && l.descriptors+more.descriptors <= limit.descriptors
}

// flights bound what is under way to all clients together, and to those of one
// user, which can have half of it.
type flights struct {
	limit load
	now   func() time.Time

	mu     sync.Mutex
	total  load
	perUID map[uint32]*load
	active map[*flight]struct{} // that have something under way
	look   time.Time            // when all of them may be refreshed again
}

// newFlights returns the bounds that follow from the limits of a server.
func newFlights(l Limits) *flights {
	return &flights{
		limit: load{bytes: max(l.HeapMemory/4, 4*flightBytes), descriptors: int64(max(l.Descriptors/2, 2*flightDescriptors))},
		now:   time.Now, perUID: make(map[uint32]*load), active: make(map[*flight]struct{}),
	}
}

// A flight is what is under way to one client. Its methods may be called from any
// number of goroutines.
type flight struct {
	all  *flights
	uid  uint32
	conn *Conn
	// operator clients are served whatever others leave unread.
	operator bool

	// The fields below are guarded by all.mu.
	under load
}

// take books more, once there is room for it: it waits for the client to read, or
// for others. It returns false when ended is closed.
func (f *flight) take(more load, ended <-chan struct{}) bool {
	const shortest, longest = 50 * time.Microsecond, 50 * time.Millisecond
	for pause := shortest; !f.tryTake(more); pause = min(2*pause, longest) {
		if !sleep(pause, ended) {
			return false
		}
		if f.conn.peerHasEnded() {
			return true // sending finds out
		}
	}
	return true
}

// tryTake books more if there is room.
func (f *flight) tryTake(more load) bool {
	a := f.all
	a.mu.Lock()
	defer a.mu.Unlock()
	if f.under != (load{}) && !f.under.fits(more, load{flightBytes, flightDescriptors}) {
		f.refresh()
		if f.under != (load{}) {
			return false
		}
	}
	if !a.hasRoom(f, more) {
		a.refreshAll()
		if !a.hasRoom(f, more) {
			return false
		}
	}
	if f.under == (load{}) {
		a.active[f] = struct{}{}
	}
	a.book(f, more, 1)
	return true
}

// hasRoom reports whether there is room beside what is under way to others. A
// client that has received everything finds room also where the bounds are used
// up, by as much again, and an operator and a user with little under way in any case:
// those who do not read hold up none that do.
func (a *flights) hasRoom(f *flight, more load) bool {
	var own load
	if l := a.perUID[f.uid]; l != nil {
		own = *l
	}
	most := a.limit
	if f.under == (load{}) {
		if f.operator || more.bytes <= freeFlight && more.descriptors == 0 {
			return true
		}
		little := load{max(most.bytes/littlePart, flightBytes), max(most.descriptors/littlePart, messageDescriptors)}
		if own.fits(more, little) {
			return true
		}
		most = load{2 * most.bytes, 2 * most.descriptors}
	}
	return a.total.fits(more, most) && own.fits(more, load{most.bytes / 2, most.descriptors / 2})
}

func (a *flights) book(f *flight, more load, sign int64) {
	f.under.add(more, sign)
	a.total.add(more, sign)
	own := a.perUID[f.uid]
	if own == nil {
		own = &load{}
		a.perUID[f.uid] = own
	}
	own.add(more, sign)
	if *own == (load{}) {
		delete(a.perUID, f.uid)
	}
}

// setOperator says whether the client is an operator's.
func (f *flight) setOperator(operator bool) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.operator = operator
}

// giveBack unbooks what was not sent after all.
func (f *flight) giveBack(less load) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.under != (load{}) { // it may have been refreshed
		f.all.book(f, load{min(less.bytes, f.under.bytes), min(less.descriptors, f.under.descriptors)}, -1)
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
	if f.under == (load{}) {
		delete(f.all.active, f)
	}
}

// refresh looks whether the client has received everything. The lock is held.
func (f *flight) refresh() {
	if f.under == (load{}) {
		return
	}
	if f.conn.unreceived() == 0 {
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
func (f *flight) look() load {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.refresh()
	return f.under
}

// peerHasEnded reports whether nobody will receive any more.
func (c *Conn) peerHasEnded() (ended bool) {
	_ = c.raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(poll, 0)
		ended = err == nil && n > 0 && poll[0].Revents&(unix.POLLHUP|unix.POLLERR) != 0
	})
	return ended
}

// unreceived returns how much memory the packets take that the peer has not
// received; 0 after Close.
func (c *Conn) unreceived() (bytes int) {
	_ = c.raw.Control(func(fd uintptr) { bytes = unreceivedOf(int(fd)) })
	return bytes
}

func unreceivedOf(socket int) int {
	n, err := unix.IoctlGetInt(socket, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}
