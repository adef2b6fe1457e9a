package daemon

import (
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
)

// kick ends a session from any goroutine: the client is told why, and what it has
// ends as if it had left. It does not wait. Only the first reason counts.
// Those who are beyond the limits are told as those who are refused.
func (s *session) kick(reason error) {
	if !s.kicked.CompareAndSwap(nil, &reason) {
		return
	}
	s.server.statistics.reject(reason)
	if s.notAdmitted == nil {
		s.tellWhy(reason)
	}
	s.outbox.Hurry()
	s.conn.StopReceive() // its goroutine does the rest
}

func (s *session) tellWhy(reason error) {
	s.reply(0, &controlpb.ServerMessage{Body: &controlpb.ServerMessage_Error{Error: ipc.EncodeError(reason)}})
}
