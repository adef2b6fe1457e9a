package daemon

import "sync"

// What clients that are refused before they have a session can make the daemon keep:
// a refusal that is not read takes memory of the kernel that is charged to the
// daemon, and a descriptor to know when it was read. Beyond that they are closed
// without a word.
const (
	mostRefusals       = RefusalDescriptors - mostArrivals
	mostRefusalsPerUID = mostRefusals / 4
)

// mostArrivals is how many clients can be accepted and neither admitted nor refused.
const mostArrivals = 16

// RefusalDescriptors is how many descriptors clients take at most, beside
// Limits.Descriptors, that are refused.
const RefusalDescriptors = 32

// refusals count the refused clients that have not received why.
type refusals struct {
	mu     sync.Mutex
	total  int
	perUID map[uint32]int
}

// enter counts one more, and reports whether it may be told.
func (r *refusals) enter(uid uint32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.total >= mostRefusals || r.perUID[uid] >= mostRefusalsPerUID {
		return false
	}
	if r.perUID == nil {
		r.perUID = make(map[uint32]int)
	}
	r.total++
	r.perUID[uid]++
	return true
}

func (r *refusals) leave(uid uint32) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.total--
	if r.perUID[uid]--; r.perUID[uid] == 0 {
		delete(r.perUID, uid)
	}
}
