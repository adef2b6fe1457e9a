package ipc

import (
	"sync"
	"time"
)

// While several users have something of the daemon, each may have paceBurst of its
// time at once for its requests, and a paceShare-th part of one processor from then on.
// Who wants more waits for it, longestPause at most before each request of a connection,
// so that a client that dies meanwhile is found out soon.
const (
	paceBurst    = 2 * time.Second
	paceShare    = 16
	longestPause = time.Second
)

// Paces hold back users that keep the daemon busy, for the sake of the others on the
// same processors: a token bucket for each user, filled with time. They may be used by
// any number of goroutines.
type paces struct {
	mu       sync.Mutex
	paid     map[uint32]time.Time // when the work for a user is paid for; past if it is
	purgeAt  int                  // how many of them there may be before past ones are dropped
	heldBack time.Duration        // all that was waited
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
