package ipc

import (
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// While several users have something of the daemon, each may have paceBurst of its
// processor time at once for its requests, and a paceShare-th part of one processor from then on.
// Who wants more waits for it, longestPause at most before each request of a connection,
// so that a client that dies meanwhile is found out soon.
const (
	paceBurst    = 2 * time.Second
	paceShare    = 16
	longestPause = time.Second
	// paceWindow is for how long at least the daemon's use of processors is measured.
	paceWindow = 100 * time.Millisecond
)

// Paces hold back users that keep the daemon busy, for the sake of the others on the
// same processors: a token bucket for each user, filled with time. They may be used by
// any number of goroutines.
type paces struct {
	mu       sync.Mutex
	paid     map[uint32]time.Time // when the work for a user is paid for; past if it is
	purgeAt  int                  // how many of them there may be before past ones are dropped
	heldBack time.Duration        // all that was waited

	atWork     int           // how many work for a user now
	workedTill time.Time     // for when worked is right
	worked     time.Duration // of all of them together since measured
	measured   time.Time
	used       time.Duration // of processors until then
	busy       float64       // which part of what was worked before that was no wait
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

// spend notes that the daemon has worked for a user, and returns how long that one's
// connection waits before its next request.
func (p *paces) spend(uid uint32, work time.Duration, now time.Time) (pause time.Duration) {
	const burst = paceBurst * paceShare
	p.mu.Lock()
	defer p.mu.Unlock()
	debt := min(max(0, p.paid[uid].Sub(now))+max(0, work)*paceShare, burst+longestPause) // what nobody waits for is forgiven
	if p.paid == nil {
		p.paid = make(map[uint32]time.Time)
	}
	p.paid[uid] = now.Add(debt)
	if len(p.paid) > p.purgeAt {
		for other, paid := range p.paid {
			if paid.Before(now) {
				delete(p.paid, other)
			}
		}
		p.purgeAt = 2*len(p.paid) + 16
	}
	return max(0, debt-burst)
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
