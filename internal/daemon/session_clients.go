package daemon

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// maxClientRows is how many rows of a list of clients fit a message.
const maxClientRows = 200

// errKicked is why a client that an operator has kicked is closed. It is none of
// the documented errors: the client's calls return shuffle.ErrDaemonLost.
var errKicked = errors.New("kicked")

// maySee reports whether the session's user may see another session, and end it.
func (s *session) maySee(other *session) bool {
	return isPrivileged(s.who.UID) || s.who.UID == other.who.UID
}

func (s *session) handleListClients(id uint64, m *controlpb.ListClients) error {
	size := int(min(m.GetPageSize(), maxClientRows))
	if size == 0 {
		size = maxClientRows
	}
	s.answerFunc(id, largeAnswer, func() (*controlpb.ServerMessage, ipc.FDs, error) {
		list := s.listClients(m.GetAfter(), size)
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_ClientList{ClientList: list}}, nil, nil
	})
	return nil
}

// listClients makes a page of the list. For any goroutine.
func (s *session) listClients(after uint64, size int) *controlpb.ClientList {
	server := s.server
	var sessions []*session
	partitions, gates, inputs := make(map[*session]int), make(map[*session]int), make(map[*session]int)
	server.mu.Lock()
	for other := range server.sessions {
		if other.id > after && s.maySee(other) {
			sessions = append(sessions, other)
		}
	}
	for _, r := range server.regions {
		partitions[r.session.Load()]++
	}
	for _, g := range server.gates {
		gates[g.session]++
		inputs[g.session] += len(g.channels)
	}
	server.mu.Unlock()
	slices.SortFunc(sessions, func(a, b *session) int { return cmp.Compare(a.id, b.id) })
	list := &controlpb.ClientList{More: len(sessions) > size}
	now := server.config.Now().UnixNano()
	for _, other := range sessions[:min(len(sessions), size)] {
		under := other.flight.look()
		messages, bytes := other.outbox.Queued()
		row := &controlpb.ClientInfo{
			Id: other.id, Uid: other.who.UID, Gid: other.who.GID, Pid: uint32(other.who.PID),
			ConnectedUnixNano: other.started.UnixNano(),
			IdleNs:            uint64(max(now-max(other.active.Load(), other.started.UnixNano()), 0)),
			Partitions:        uint32(partitions[other]), Gates: uint32(gates[other]), Inputs: uint32(inputs[other]),
			UnsentMessages: uint32(messages), UnsentBytes: uint64(bytes),
			DescriptorsUnderWay: uint32(under.Descriptors), BytesUnderWay: uint64(under.Bytes),
		}
		if name := other.name.Load(); name != nil {
			row.Name, row.Greeted = *name, true
		}
		list.Clients = append(list.Clients, row)
	}
	return list
}

func (s *session) handleKickClient(id uint64, m *controlpb.KickClient) error {
	var found *session
	s.server.mu.Lock()
	for other := range s.server.sessions {
		if other.id == m.GetClientId() && s.maySee(other) {
			found = other
		}
	}
	s.server.mu.Unlock()
	if found == nil {
		return fieldError("kick_client.client_id", m.GetClientId(),
			"a client that is there, of this user or, for root and the daemon's own, of any; 'shuffled clients' shows them", shuffle.ErrInvalidArgument)
	}
	s.log.Info("client is kicked", "kicked", found.id, "kicked_uid", found.who.UID, "kicked_pid", found.who.PID)
	s.acknowledge(id)
	found.kick(fmt.Errorf("%w by an operator (uid %d, pid %d)", errKicked, s.who.UID, s.who.PID))
	return nil
}
