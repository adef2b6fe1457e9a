package client

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"shuffled/internal/gate"
	"shuffled/internal/partition"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// inputsPerMessage is how many inputs fit a message whatever their tokens.
const inputsPerMessage = 1000

// OpenGate opens an input gate. It returns when the daemon knows of all inputs;
// each channel delivers once its partition is there. What becomes of an input
// that cannot be read comes from the gate's Next: shuffle.ErrPartitionNotFound
// after the spec's timeout, ErrPartitionReleased, ErrPartitionExpired,
// ErrPartitionFailed, ErrProducerLost, ErrFenced, ErrAlreadyConsumed; what is about
// an attempt is a *shuffle.AttemptError. The caller must Close the gate.
//
// Errors: shuffle.ErrInvalidArgument for a spec outside its range,
// ErrQuotaExceeded by a limit, which the message names.
func (c *Client) OpenGate(ctx context.Context, spec shuffle.GateSpec) (shuffle.InputGate, error) {
	spec = spec.WithDefaults()
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	spec.Inputs = slices.Clone(spec.Inputs) // the gate's own
	g, err := c.openGate(ctx, spec)
	if err != nil {
		return nil, during(opening(spec), err)
	}
	first := 0
	for inputs := range slices.Chunk(spec.Inputs, inputsPerMessage) {
		if err := g.addInputs(ctx, first, inputs, spec.Timeout); err != nil {
			_ = g.gate.Close()
			return nil, during(opening(spec), err)
		}
		first += len(inputs)
	}
	return g.gate, nil
}

// opening says what is done, with the name of the gate if it has one.
func opening(spec shuffle.GateSpec) string {
	if spec.Name == "" {
		return "open gate"
	}
	return fmt.Sprintf("open gate %q", spec.Name)
}

// A remoteGate connects a gate of this process to the daemon. It is the
// gate.GateControl of the gate. The gate and each view of it use its memory.
type remoteGate struct {
	client           *Client
	id               uint64
	gate             *gate.InputGate
	region, doorbell *memseg.Region

	mu    sync.Mutex
	users int // 0 once it is closed
}

func (c *Client) openGate(ctx context.Context, spec shuffle.GateSpec) (*remoteGate, error) {
	answer, err := c.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_OpenGate{
		OpenGate: &controlpb.OpenGate{Channels: uint32(len(spec.Inputs)), Name: spec.Name},
	}}, &outcome{undo: func(msg *controlpb.ServerMessage) { c.sendCloseGate(msg.GetGateOpened().GetGateId()) }})
	if err != nil {
		return nil, err
	}
	defer answer.drop()
	g := &remoteGate{client: c, id: answer.msg.GetGateOpened().GetGateId(), users: 1}
	if err := g.open(spec, answer); err != nil {
		_ = g.CloseGate()
		return nil, err
	}
	return g, nil
}

// open maps the gate.
func (g *remoteGate) open(spec shuffle.GateSpec, answer reply) (err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "open gate", &err)
	m := answer.msg.GetGateOpened()
	if m == nil {
		return fmt.Errorf("answer is not gate_opened: %w", shuffle.ErrProtocol)
	}
	if g.region, g.doorbell, err = answer.take(); err != nil {
		return err
	}
	layout, err := memseg.DecodeGateHeader(g.region.Bytes(), int64(g.region.Size()))
	if err != nil {
		return fmt.Errorf("%w: %w", err, shuffle.ErrProtocol)
	}
	if layout.ID != g.id || layout.Channels != len(spec.Inputs) {
		return fmt.Errorf("the region is not that of the gate: %w", shuffle.ErrProtocol)
	}
	if g.gate, err = gate.NewInputGate(g.region, layout, g.doorbell, spec, g); err != nil {
		return err
	}
	c := g.client
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.unusable(); err != nil {
		return err
	}
	c.gates[g.id] = g
	return nil
}

func (g *remoteGate) addInputs(ctx context.Context, first int, inputs []shuffle.Input, timeout time.Duration) error {
	m := &controlpb.AddInputs{GateId: g.id, FirstChannel: uint32(first),
		TimeoutMs: uint64((timeout + time.Millisecond - 1) / time.Millisecond)}
	for i := range inputs {
		in := &inputs[i]
		m.Inputs = append(m.Inputs, &controlpb.Input{
			PartitionId: in.Partition[:], Subpartition: uint32(in.Subpartition), Token: in.Token,
			OwnerUid: in.Owner, MinAttempt: in.MinAttempt, ExactAttempt: in.ExactAttempt, Name: in.Name,
		})
	}
	answer, err := g.client.call(ctx, &controlpb.ClientMessage{Body: &controlpb.ClientMessage_AddInputs{AddInputs: m}},
		nil)
	if err != nil {
		return err
	}
	answer.drop()
	return nil
}

// CloseGate implements gate.GateControl. Buffers that the user has retained
// keep the gate's memory, and that of their partitions, until they are released.
func (g *remoteGate) CloseGate() error {
	c := g.client
	c.mu.Lock()
	delete(c.gates, g.id)
	c.mu.Unlock()
	g.release()
	return nil
}

// acquire keeps the gate's memory for a view. It returns false once the gate is
// closed.
func (g *remoteGate) acquire() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.users == 0 {
		return false
	}
	g.users++
	return true
}

// release gives the memory back after the last user, and tells the daemon.
func (g *remoteGate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.users--
	if g.users > 0 {
		return
	}
	if g.region != nil {
		_ = g.region.Close()
	}
	if g.doorbell != nil {
		_ = g.doorbell.Close()
	}
	g.client.sendCloseGate(g.id)
}

func (c *Client) sendCloseGate(id uint64) {
	c.send(
		&controlpb.ClientMessage{Body: &controlpb.ClientMessage_CloseGate{CloseGate: &controlpb.CloseGate{GateId: id}}},
	)
}

func (c *Client) postCloseChannel(gate uint64, channel uint32, consumed bool) {
	c.post(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_CloseChannel{
		CloseChannel: &controlpb.CloseChannel{GateId: gate, Channel: channel, Consumed: consumed},
	}})
}

// inputReady gives a channel its subpartition.
func (g *remoteGate) inputReady(m *controlpb.InputReady, a *arrival) {
	if !g.acquire() {
		return // closing; the daemon knows or will
	}
	view, err := g.openView(m, a)
	if err != nil {
		g.client.postCloseChannel(g.id, m.GetChannel(), false)
		g.release()
		g.gate.FailChannel(int(m.GetChannel()), fmt.Errorf("open partition %x: %w", m.GetPartitionId(), err))
		return
	}
	g.gate.AttachChannel(int(m.GetChannel()), view)
}

// openView maps the partition of an input. The view it returns holds a use of
// the gate's memory.
func (g *remoteGate) openView(m *controlpb.InputReady, a *arrival) (*partition.SubpartitionView, error) {
	c := g.client
	key, mapping, err := a.takePeer()
	if err != nil {
		return nil, err
	}
	var view *partition.SubpartitionView
	view, err = partition.NewSubpartitionView(mapping.region, mapping.partition, mapping.doorbell,
		int(m.GetSubpartition()),
		g.gate.ChannelWords(int(m.GetChannel())), func(whole bool) {
			c.maps.release(key)
			c.postCloseChannel(g.id, m.GetChannel(), whole)
			g.release()
		})
	if err != nil {
		c.maps.release(key)
	}
	return view, err
}

func openPartition(m *controlpb.InputReady, fds ipc.FDs, lost error) (_ *peerMapping, err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "open partition", &err)
	region, doorbell, err := mapBoth(fds, lost, "input_ready", memseg.ReadOnly, m.GetRegionSize(), m.GetDoorbellSize())
	if err != nil {
		return nil, err
	}
	mapping := &peerMapping{region: region, doorbell: doorbell}
	mapping.partition, err = memseg.DecodePartitionHeader(region.Bytes(), int64(region.Size()))
	if err == nil &&
		(string(mapping.partition.ID[:]) != string(m.GetPartitionId()) || mapping.partition.Epoch != m.GetEpoch()) {
		err = fmt.Errorf("input_ready: the region is of partition %x, epoch %#x", mapping.partition.ID,
			mapping.partition.Epoch)
	}
	if err != nil {
		_ = region.Close()
		_ = doorbell.Close()
		return nil, fmt.Errorf("%w: %w", err, shuffle.ErrProtocol)
	}
	return mapping, nil
}
