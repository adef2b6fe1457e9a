package daemon

import (
	"maps"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// While several users have something of the daemon, each may have its burst of the
// daemon's processor time at once, and a paceShare-th part of all processors from then
// on. Who wants more waits for it before each request, however many connections it has.
const (
	paceShare = 32
	// burst is how much debt nobody waits for: an eighth of a second of each processor.
	burst = paceShare * time.Second / 8
	// longestDebt is for how long somebody waits at most for what was done before; the
	// rest is forgiven.
	longestDebt = 10 * time.Second
	// longestPause is how often whoever waits is looked at, so that a client that dies
	// meanwhile is found out soon.
	longestPause = time.Second
	// paceWindow is for how long at least the daemon's use of processors is measured.
	paceWindow = 100 * time.Millisecond
	// costsRemembered is over how many requests of a user what one costs is averaged.
	costsRemembered = 8
)

// Paces hold back users that keep the daemon busy, for the sake of the others on the
// same processors: a token bucket for each user, filled with time. They may be used by
// any number of goroutines.
type paces struct {
	perWork float64 // debt for each second of work, in seconds

	mu       sync.Mutex
	users    map[uint32]*pace
	purgeAt  int           // how many of them there may be before those who owe nothing are dropped
	heldBack time.Duration // all that was waited

	atWork     int           // how many work for a user now
	workedTill time.Time     // for when worked is right
	worked     time.Duration // of all of them together since measured
	measured   time.Time
	used       time.Duration // of processors until then
	busy       float64       // which part of what was worked before that was no wait
}

// A pace is one user's.
type pace struct {
	paid time.Time     // when the work for the user is paid for; past if it is
	cost time.Duration // of a request, lately
}

// newPaces returns those of a host with so many processors.
func newPaces(processors int) paces {
	return paces{perWork: paceShare / float64(processors), users: make(map[uint32]*pace)}
}

// processorTime returns how long this process has used processors.
func processorTime() time.Duration {
	var use unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &use) // with what it is given it cannot fail
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

// begin notes that the daemon begins to work for a user; done follows.
func (p *paces) begin(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(1, now)
}

// done notes that the daemon has worked for a user, and returns how much of that it
// was at work, by how long this process has used processors: most of it may have been
// waits for one another, for other users' work, and for programs that take the
// processors. What it returns for all is no more than was used.
func (p *paces) done(work time.Duration, now time.Time, used time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.change(-1, now)
	if now.Sub(p.measured) >= paceWindow {
		p.busy = 1
		if p.worked > 0 {
			p.busy = min(1, max(0, (used-p.used).Seconds())/p.worked.Seconds())
		}
		p.measured, p.used, p.worked = now, used, 0
	}
	return time.Duration(float64(work) * p.busy)
}

func (p *paces) change(atWork int, now time.Time) {
	p.worked += time.Duration(p.atWork) * max(0, now.Sub(p.workedTill))
	p.workedTill = now
	p.atWork += atWork
}

// turn gives a user its turn for a request if pause is 0, and charges it at once with
// what one costs lately, so that not all who wait have theirs together: whoever does the
// work spends that much less. Otherwise it returns when to ask again. Who has waited for
// the longest debt has its turn whatever was done for the user meanwhile.
func (p *paces) turn(uid uint32, waited time.Duration, now time.Time) (charged, pause time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[uid]
	if u == nil {
		return 0, 0
	}
	if pause = min(u.paid.Sub(now)-burst, longestDebt-waited); pause > 0 {
		return 0, min(pause, longestPause)
	}
	p.charge(u, u.cost, now)
	return u.cost, 0
}

// spend charges a user for work.
func (p *paces) spend(uid uint32, work time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charge(p.user(uid, now), max(0, work), now)
}

// spendOnRequest charges a user for a request that its turn has charged it for already.
func (p *paces) spendOnRequest(uid uint32, work, charged time.Duration, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.user(uid, now)
	p.charge(u, max(0, work)-charged, now)
	u.cost += (max(0, work) - u.cost) / costsRemembered
}

func (p *paces) charge(u *pace, work time.Duration, now time.Time) {
	debt := max(0, u.paid.Sub(now)) + time.Duration(p.perWork*float64(work))
	u.paid = now.Add(min(debt, burst+longestDebt))
}

// user returns the pace of a user, and forgets those that owe nothing now and then.
func (p *paces) user(uid uint32, now time.Time) *pace {
	if u := p.users[uid]; u != nil {
		return u
	}
	if len(p.users) >= p.purgeAt {
		maps.DeleteFunc(p.users, func(_ uint32, u *pace) bool { return u.paid.Before(now) })
		p.purgeAt = 2*len(p.users) + 16
	}
	u := &pace{}
	p.users[uid] = u
	return u
}

func (p *paces) waited(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heldBack += d
}

func (p *paces) totalHeldBack() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.heldBack
}
