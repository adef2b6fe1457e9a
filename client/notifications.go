package client

import (
	"runtime/debug"

	"shuffled/internal/partition"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
)

// notified passes a notification on to the partition or gate that it is about.
// One that is closed meanwhile does not hear of it.
func (c *Client) notified(a *arrival) {
	defer a.drop()
	if err := c.passOn(a); err != nil {
		c.log.Error("memory of a partition or gate is gone", "error", err) // who uses it will meet the fault too
	}
}

// passOn touches memory that is shared with others.
func (c *Client) passOn(a *arrival) (err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "pass on a notification", &err)
	switch body := a.msg.GetBody().(type) {
	case *controlpb.ServerMessage_PoolResized:
		if r := c.partition(body.PoolResized.GetEpoch()); r != nil {
			r.resized(body.PoolResized)
		}
	case *controlpb.ServerMessage_ConsumerAttached:
		if r := c.partition(body.ConsumerAttached.GetEpoch()); r != nil {
			r.consumerAttached(body.ConsumerAttached, a)
		}
	case *controlpb.ServerMessage_ConsumerDetached:
		if r := c.partition(body.ConsumerDetached.GetEpoch()); r != nil {
			m := body.ConsumerDetached
			r.tell(func(p *partition.ResultPartition) {
				p.DetachConsumer(int(m.GetSubpartition()), m.GetConsumed(), m.GetReason())
			})
		}
	case *controlpb.ServerMessage_PartitionReleased:
		if r := c.partition(body.PartitionReleased.GetEpoch()); r != nil {
			err := ipc.DecodeError(body.PartitionReleased.GetError())
			r.tell(func(p *partition.ResultPartition) { p.EndedByHost(err) })
		}
	case *controlpb.ServerMessage_InputReady:
		if g := c.gate(body.InputReady.GetGateId(), body.InputReady.GetChannel()); g != nil {
			g.inputReady(body.InputReady, a)
		}
	case *controlpb.ServerMessage_InputFailed:
		if g := c.gate(body.InputFailed.GetGateId(), body.InputFailed.GetChannel()); g != nil {
			g.gate.FailChannel(int(body.InputFailed.GetChannel()), ipc.DecodeError(body.InputFailed.GetError()))
		}
	default:
		c.log.Warn("the daemon sent a notification that this version does not know")
	}
	return nil
}

func (c *Client) partition(epoch uint64) *remotePartition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.partitions[epoch]
}

// gate returns a gate that has the channel, or nil.
func (c *Client) gate(id uint64, channel uint32) *remoteGate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if g := c.gates[id]; g != nil && int64(channel) < int64(g.gate.NumChannels()) {
		return g
	}
	return nil
}
