package daemon

import (
	"errors"
	"time"

	"shuffled/internal/daemon/registry"
)

// errAccessDenied counts attempts to read what one may not, beside what the client
// is told: that there is no such partition.
var errAccessDenied = errors.New("access denied")

// auditBurst is how many refusals of a user are logged in a second; of the others,
// how many there were.
const auditBurst = 10

// An auditThrottle keeps a user from filling the log, and from hiding others in
// it. Its owner guards it.
type auditThrottle struct {
	second time.Time
	users  map[uint32]*auditCount
}

type auditCount struct{ logged, dropped int }

// allow reports whether a line about a user may be logged now, and how many were
// not in the second before.
func (t *auditThrottle) allow(now time.Time, uid uint32) (ok bool, dropped int) {
	if t.users == nil || now.Sub(t.second) >= time.Second {
		last := t.users
		t.second, t.users = now, make(map[uint32]*auditCount)
		for uid, c := range last {
			if c.dropped > 0 {
				t.users[uid] = &auditCount{dropped: c.dropped}
			}
		}
	}
	c := t.users[uid]
	if c == nil {
		c = &auditCount{}
		t.users[uid] = c
	}
	if c.logged == auditBurst {
		c.dropped++
		return false, 0
	}
	c.logged++
	dropped, c.dropped = c.dropped, 0
	return true, dropped
}

// refused takes note of somebody who tried to read another user's partition
// without leave. It is for the operator alone.
func (s *Server) refused(r registry.Refusal) {
	s.statistics.reject(errAccessDenied)
	s.statistics.mu.Lock()
	ok, dropped := s.statistics.audit.allow(s.config.Now(), r.Who.UID)
	s.statistics.mu.Unlock()
	if !ok {
		return
	}
	attrs := []any{
		"uid", r.Who.UID, "gid", r.Who.GID, "pid", r.Who.PID, "action", r.Action,
		"partition", r.Partition, "name", r.Name, "owner", r.Owner,
		"reason", "neither its owner, nor allowed by uid, gid or token",
	}
	if dropped > 0 {
		attrs = append(attrs, "refusals_not_logged", dropped)
	}
	s.log.Warn("access refused", attrs...)
}
