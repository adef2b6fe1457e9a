package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

func TestInputWhoseDescriptorsWereLostFailsAlone(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	gate := openOne(t, c, s.ID, 0)
	defer gate.Close()
	c.mu.Lock()
	var id uint64
	for id = range c.gates {
	}
	c.mu.Unlock()
	// As Receive returns it for a packet that did not fit this process.
	a := c.arrived(&controlpb.ServerMessage{Body: &controlpb.ServerMessage_InputReady{InputReady: &controlpb.InputReady{
		GateId: id, PartitionId: s.ID[:], Epoch: 7, RegionSize: 4096, DoorbellSize: 4096,
	}}}, nil, ipc.ErrDescriptorsLost)
	c.inbox.put(func() { c.notified(a) })
	_, err := gate.Next(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
	require.ErrorContains(t, err, "raise its RLIMIT_NOFILE")
	require.ErrorContains(t, err, "open partition")
	create(t, c, spec(1)) // the connection goes on
}
