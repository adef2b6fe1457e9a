package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// FuzzSession lets a client that has a partition and a gate send any packets: the
// session goes on or ends, and afterwards everything is given back.
func FuzzSession(f *testing.F) {
	id := shuffle.NamedPartitionID("fuzz")
	for _, msg := range []*controlpb.ClientMessage{
		createMessage(id, 3), openGateMessage(3), addInputsMessage(0, 1, id, 0, 1), closeChannelMessage(0, 1, true),
		finishMessage(0), mappedMessage(0), wantMessage(0, 4),
		returnMessage(0, &controlpb.SegmentRange{First: 0, Last: 1}), listMessage(),
		{Body: &controlpb.ClientMessage_CloseGate{CloseGate: &controlpb.CloseGate{}}},
		{Body: &controlpb.ClientMessage_ReleasePartition{ReleasePartition: &controlpb.ReleasePartition{}}},
		{Body: &controlpb.ClientMessage_FailPartition{FailPartition: &controlpb.FailPartition{Cause: "why"}}},
		{Body: &controlpb.ClientMessage_ClosePartition{ClosePartition: &controlpb.ClosePartition{}}},
		{Body: &controlpb.ClientMessage_InspectPartition{InspectPartition: &controlpb.InspectPartition{PartitionId: id[:]}}},
	} {
		msg.RequestId = 1000
		packet, err := proto.Marshal(msg)
		require.NoError(f, err)
		f.Add(packet, packet)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		s := startServer(t, serverConfig())
		c := s.greet()
		created := c.create(id, 2)
		gate := c.openGate(2)
		for _, packet := range [][]byte{first, second} {
			msg := &controlpb.ClientMessage{}
			if proto.Unmarshal(packet, msg) == nil {
				// What names nothing shall name what there is.
				aim(msg, created.Epoch, gate)
				packet, _ = proto.Marshal(msg)
			}
			c.trySend(packet)
		}
		c.leave()
		s.requireIdle()
		require.NoError(t, s.Close())
	})
}

// aim fills in ids that are 0.
func aim(msg *controlpb.ClientMessage, epoch, gate uint64) {
	body := msg.ProtoReflect()
	which := body.WhichOneof(body.Descriptor().Oneofs().ByName("body"))
	if which == nil {
		return
	}
	inner := body.Mutable(which).Message()
	for name, id := range map[string]uint64{"epoch": epoch, "gate_id": gate} {
		field := inner.Descriptor().Fields().ByTextName(name)
		if field != nil && inner.Get(field).Uint() == 0 {
			inner.Set(field, protoreflect.ValueOfUint64(id))
		}
	}
}

// trySend sends a packet to a server that may have ended the session.
func (c *rawClient) trySend(packet []byte) {
	if len(packet) == 0 || len(packet) > ipc.MaxMessageSize {
		return
	}
	_ = c.socket.Control(func(fd uintptr) { _ = unix.Sendto(int(fd), packet, unix.MSG_NOSIGNAL, nil) })
}
