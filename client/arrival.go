package client

import (
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
)

// An arrival is a message of the daemon and what came beside it, mapped already:
// so no more descriptors are open than those of the message that is just being
// received, however many messages wait to be looked at. It has one owner at a
// time.
type arrival struct {
	msg  *controlpb.ServerMessage
	maps *mappings

	region, doorbell *memseg.Region // of an object of this client's own
	key              peerKey        // of peer
	peer             *peerMapping   // acquired from maps
	err              error          // why there is none of these
}

// arrived maps what came beside a message and closes the descriptors. lost is why
// descriptors are missing, if some are. It runs on the receiving goroutine.
func (c *Client) arrived(msg *controlpb.ServerMessage, fds ipc.FDs, lost error) *arrival {
	defer fds.Close()
	a := &arrival{msg: msg, maps: &c.maps}
	switch body := msg.GetBody().(type) {
	case *controlpb.ServerMessage_PartitionCreated:
		m := body.PartitionCreated
		a.region, a.doorbell, a.err = mapBoth(fds, lost, "partition_created", memseg.ReadWrite, m.GetRegionSize(),
			m.GetDoorbellSize())
	case *controlpb.ServerMessage_GateOpened:
		m := body.GateOpened
		a.region, a.doorbell, a.err = mapBoth(fds, lost, "gate_opened", memseg.ReadWrite, m.GetRegionSize(),
			m.GetDoorbellSize())
	case *controlpb.ServerMessage_ConsumerAttached:
		m := body.ConsumerAttached
		a.acquire(peerKey{gate: true, id: m.GetGateId()},
			func() (*peerMapping, error) { return openConsumerGate(m, fds, lost) })
	case *controlpb.ServerMessage_InputReady:
		m := body.InputReady
		a.acquire(peerKey{id: m.GetEpoch()}, func() (*peerMapping, error) { return openPartition(m, fds, lost) })
	}
	return a
}

func (a *arrival) acquire(key peerKey, open func() (*peerMapping, error)) {
	a.key = key
	a.peer, a.err = a.maps.acquire(key, open)
}

// take hands region and doorbell over to the caller, who closes them.
func (a *arrival) take() (region, doorbell *memseg.Region, err error) {
	region, doorbell = a.region, a.doorbell
	a.region, a.doorbell = nil, nil
	return region, doorbell, a.err
}

// takePeer hands the mapping of a peer over to the caller, who releases it.
func (a *arrival) takePeer() (peerKey, *peerMapping, error) {
	peer := a.peer
	a.peer = nil
	return a.key, peer, a.err
}

// drop gives back what nobody took over. It may be called again.
func (a *arrival) drop() {
	if a.region != nil {
		_ = a.region.Close()
		_ = a.doorbell.Close()
		a.region, a.doorbell = nil, nil
	}
	if a.peer != nil {
		a.maps.release(a.key)
		a.peer = nil
	}
}
