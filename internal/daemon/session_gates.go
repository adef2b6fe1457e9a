package daemon

import (
	"fmt"
	"time"
	"unicode/utf8"

	"shuffled/internal/daemon/registry"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

func (s *session) handleOpenGate(id uint64, m *controlpb.OpenGate) error {
	channels, limit := m.GetChannels(), s.server.config.Limits.InputsPerGate
	if channels < 1 {
		return fieldError("open_gate.channels", channels, fmt.Sprintf("1 to %d", limit), shuffle.ErrInvalidArgument)
	}
	if uint64(channels) > uint64(limit) {
		return atLimit("--max-inputs-per-gate", fieldError("open_gate.channels", channels,
			fmt.Sprintf("at most %d, the limit --max-inputs-per-gate of the daemon: raise it or open several gates",
				limit), shuffle.ErrQuotaExceeded))
	}
	if name := m.GetName(); len(name) > shuffle.MaxNameLength || !utf8.ValidString(name) {
		return fieldError("open_gate.name", fmt.Sprintf("%d bytes", len(name)),
			fmt.Sprintf("at most %d of UTF-8", shuffle.MaxNameLength), shuffle.ErrInvalidArgument)
	}
	g, err := s.newHostedGate(int(channels), m.GetName())
	if err != nil {
		return err
	}
	s.gates[g.id] = g
	s.answerFunc(id, sharedAnswer, func() (*controlpb.ServerMessage, ipc.FDs, error) {
		fds, err := s.server.share(s.outbox.Ended(),
			func() (ipc.FDs, error) { return shareReadWrite(g.memfd, g.doorbell) })
		if err != nil {
			g.free()
			return nil, nil, describeShortage(err)
		}
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_GateOpened{GateOpened: &controlpb.GateOpened{
			GateId: g.id, RegionSize: uint64(g.memfd.Size()), DoorbellSize: uint64(g.doorbell.Size()),
		}}}, fds, nil
	})
	return nil
}

func (s *session) handleAddInputs(id uint64, m *controlpb.AddInputs) error {
	g := s.gates[m.GetGateId()]
	if g == nil {
		return fieldError("add_inputs.gate_id", m.GetGateId(), "that of a gate of this client",
			shuffle.ErrInvalidArgument)
	}
	first, count := uint64(m.GetFirstChannel()), uint64(len(m.GetInputs()))
	if channels := uint64(len(g.channels)); first > channels || count > channels-first {
		return fieldError("add_inputs.inputs", fmt.Sprintf("channels %d to %d", first, first+count),
			fmt.Sprintf("below %d", channels), shuffle.ErrInvalidArgument)
	}
	const limit = uint64(shuffle.MaxInputTimeout / time.Millisecond)
	if m.GetTimeoutMs() > limit {
		return fieldError("add_inputs.timeout_ms", m.GetTimeoutMs(), fmt.Sprintf("at most %d", limit),
			shuffle.ErrInvalidArgument)
	}
	claims := make([]registry.SubpartitionClaim, count)
	for i, in := range m.GetInputs() {
		if g.channels[int(first)+i] != nil {
			return fieldError("add_inputs.first_channel", first, fmt.Sprintf("channel %d without an input",
				int(first)+i), shuffle.ErrInvalidArgument)
		}
		var err error
		if claims[i], err = s.decodeInput(i, in); err != nil {
			return err
		}
	}
	s.acknowledge(id)
	timeout := time.Duration(m.GetTimeoutMs()) * time.Millisecond
	asked := s.server.config.Now().UnixNano()
	for i, claim := range claims {
		c := &hostedChannel{gate: g, index: int(first) + i, asked: asked}
		c.request = s.server.partitions.NewRequest(claim, c)
		g.channels[c.index] = c
		c.request.Start(timeout)
	}
	return nil
}

// decodeInput reads and checks an input. Without an owner it is of the user
// that asks: what others create under the same id is not taken for its own.
func (s *session) decodeInput(i int, in *controlpb.Input) (registry.SubpartitionClaim, error) {
	invalid := func(field string, got any, want string) (registry.SubpartitionClaim, error) {
		return registry.SubpartitionClaim{}, fieldError(fmt.Sprintf("add_inputs.inputs[%d].%s", i, field), got, want,
			shuffle.ErrInvalidArgument)
	}
	id, err := ipc.DecodePartitionID(in.GetPartitionId())
	if err != nil {
		return registry.SubpartitionClaim{}, fmt.Errorf("add_inputs.inputs[%d].partition_id: %w", i, err)
	}
	if sub := in.GetSubpartition(); sub >= shuffle.MaxSubpartitions {
		return invalid("subpartition", sub, fmt.Sprintf("below %d", shuffle.MaxSubpartitions))
	}
	if len(in.GetToken()) > shuffle.MaxTokenLength {
		return invalid("token", fmt.Sprintf("%d bytes", len(in.GetToken())),
			fmt.Sprintf("at most %d", shuffle.MaxTokenLength))
	}
	if len(in.GetName()) > shuffle.MaxNameLength {
		return invalid("name", fmt.Sprintf("%d bytes", len(in.GetName())),
			fmt.Sprintf("at most %d", shuffle.MaxNameLength))
	}
	claim := registry.SubpartitionClaim{
		Partition: id, Name: in.GetName(), Owner: s.who.UID, Subpartition: int(in.GetSubpartition()),
		MinAttempt: in.GetMinAttempt(), Exact: in.GetExactAttempt(), Who: s.who, Token: in.GetToken(),
	}
	if in.OwnerUid != nil {
		claim.Owner = in.GetOwnerUid()
	}
	return claim, nil
}

func (s *session) handleCloseChannel(m *controlpb.CloseChannel) error {
	g := s.gates[m.GetGateId()]
	if g == nil {
		return fieldError("close_channel.gate_id", m.GetGateId(), "that of a gate of this client", shuffle.ErrProtocol)
	}
	if channels := len(g.channels); uint64(m.GetChannel()) >= uint64(channels) || g.channels[m.GetChannel()] == nil {
		return fieldError("close_channel.channel", m.GetChannel(), fmt.Sprintf("one with an input, below %d", channels),
			shuffle.ErrProtocol)
	}
	g.channels[m.GetChannel()].request.Close(m.GetConsumed())
	return nil
}

func (s *session) handleCloseGate(id uint64, m *controlpb.CloseGate) error {
	g := s.gates[m.GetGateId()]
	if g == nil {
		return fieldError("close_gate.gate_id", m.GetGateId(), "that of a gate of this client",
			shuffle.ErrInvalidArgument)
	}
	delete(s.gates, g.id)
	for _, c := range g.channels {
		if c != nil {
			c.request.Close(false)
		}
	}
	g.free()
	s.acknowledge(id)
	return nil
}
