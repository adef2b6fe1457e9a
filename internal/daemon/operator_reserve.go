package daemon

import (
	"fmt"
	"slices"
	"sync"

	"shuffled/shuffle"
)

// operatorSlots is how many sessions beyond the limits there may be at one time.
const operatorSlots = 16

// An operatorReserve lets root and the daemon's own user in when there is no
// connection left, for an operator's requests. The newest gets in, and if there are
// too many, the oldest goes of those who come first here: who is not root and has
// said nothing, who is not root, anybody.
type operatorReserve struct {
	mu       sync.Mutex
	sessions []*session // by age
}

func (o *operatorReserve) enter(s *session) {
	o.mu.Lock()
	var oldest *session
	if len(o.sessions) == operatorSlots {
		i := o.leastImportant()
		oldest = o.sessions[i]
		o.sessions = slices.Delete(o.sessions, i, i+1)
	}
	o.sessions = append(o.sessions, s)
	o.mu.Unlock()
	if oldest != nil {
		oldest.kick(fmt.Errorf("%d newer ones came while there is no connection left: %w", operatorSlots,
			shuffle.ErrQuotaExceeded))
	}
}

// leastImportant returns the index of who goes. The lock is held.
func (o *operatorReserve) leastImportant() int {
	isOther := func(s *session) bool { return s.who.UID != 0 }
	if i := slices.IndexFunc(o.sessions, func(s *session) bool { return isOther(s) && s.name.Load() == nil }); i >= 0 {
		return i
	}
	return max(slices.IndexFunc(o.sessions, isOther), 0)
}

// leave forgets a session, if it is one of these.
func (o *operatorReserve) leave(s *session) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if i := slices.Index(o.sessions, s); i >= 0 {
		o.sessions = slices.Delete(o.sessions, i, i+1)
	}
}
