package ipc

import (
	"errors"
	"time"

	"shuffled/shuffle"
)

// errAccessDenied counts attempts to read what one may not, beside what the client
// is told: that there is no such partition.
var errAccessDenied = errors.New("access denied")

// auditBurst is how many refusals are logged in a second; of the others, how many
// there were.
const auditBurst = 10

// An auditThrottle keeps a client from filling the log. Its owner guards it.
type auditThrottle struct {
	second  time.Time
	logged  int
	dropped int
}

// allow reports whether a line may be logged now, and how many were not since the
// last one.
func (t *auditThrottle) allow(now time.Time) (ok bool, dropped int) {
	if now.Sub(t.second) >= time.Second {
		t.second, t.logged = now, 0
	}
	if t.logged == auditBurst {
		t.dropped++
		return false, 0
	}
	t.logged++
	dropped, t.dropped = t.dropped, 0
	return true, dropped
}

// refused takes note of somebody who tried to read another user's partition
// without leave. It is for the operator alone.
func (s *Server) refused(r shuffle.Refusal) {
	s.statistics.reject(errAccessDenied)
	s.statistics.mu.Lock()
	ok, dropped := s.statistics.audit.allow(time.Now())
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
