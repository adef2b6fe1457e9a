package ipc

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// hello returns a message whose client name has n bytes.
func hello(requestID uint64, n int) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{RequestId: requestID, Body: &controlpb.ClientMessage_Hello{Hello: &controlpb.Hello{
		MinVersion: 1, MaxVersion: 1, ClientName: string(bytes.Repeat([]byte("n"), n)),
	}}}
}

// helloOfSize returns a message that is encoded as exactly size bytes.
func helloOfSize(t testing.TB, size int) *controlpb.ClientMessage {
	t.Helper()
	msg := hello(1, size)
	msg = hello(1, size-(proto.Size(msg)-size))
	require.Equal(t, size, proto.Size(msg))
	return msg
}

func requireMessage(t testing.TB, want, got proto.Message) {
	t.Helper()
	require.True(t, proto.Equal(want, got), "want %v, got %v", want, got)
}

func TestReceiveReturnsMessagesWholeAndInOrder(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	for id, size := range []int{0, 1, 1000, 60_000} {
		require.NoError(t, a.Send(hello(uint64(id), size)))
	}
	got := &controlpb.ClientMessage{}
	for id, size := range []int{0, 1, 1000, 60_000} {
		fds, err := b.Receive(got)
		require.NoError(t, err)
		require.Empty(t, fds)
		requireMessage(t, hello(uint64(id), size), got)
	}
}

func TestMessageSizeIsLimitedOnSend(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	err := a.Send(helloOfSize(t, MaxMessageSize+1))
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.EqualError(t, err,
		"send ClientMessage.hello: got a message of 131073 bytes, limit 131072: invalid argument")

	err = a.Send(&controlpb.ClientMessage{})
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument, "an empty packet would be the end of the peer")

	longest := helloOfSize(t, MaxMessageSize)
	require.NoError(t, a.Send(longest))
	got := &controlpb.ClientMessage{}
	_, err = b.Receive(got)
	require.NoError(t, err)
	requireMessage(t, longest, got)
}

func TestLongestAnswersFitAMessage(t *testing.T) {
	const large, largeID = ^uint32(0), ^uint64(0)
	info := &controlpb.PartitionInfo{
		PartitionId: make([]byte, 16), Attempt: large, Name: string(make([]byte, 1024)), Type: large,
		State:         "CONSUMER_ATTACHED",
		Subpartitions: large, PoolRequired: large, PoolMax: large, PoolSize: large, SegmentsHeld: large,
		BytesOut:   largeID,
		BuffersOut: largeID, BackPressuredNs: largeID, ProducerPid: large, ProducerUid: large, ProducerAttached: true,
		Failure: string(make([]byte, MaxErrorMessage)), CreatedUnixNano: -1,
	}
	for range 1024 {
		info.SubpartitionInfo = append(info.SubpartitionInfo, &controlpb.SubpartitionInfo{
			Index: large, State: "CONSUMER_ATTACHED", BuffersPublished: largeID, BuffersReleased: largeID,
			BytesOut:    largeID,
			ConsumerPid: large, ConsumerUid: large, GateId: largeID, Channel: large,
		})
	}
	resized := &controlpb.PoolResized{Epoch: 1<<64 - 1, PoolSize: large}
	for range MaxRangesPerMessage {
		resized.Granted = append(resized.Granted, &controlpb.SegmentRange{First: large, Last: large})
	}
	for _, msg := range []*controlpb.ServerMessage{
		{RequestId: largeID, Body: &controlpb.ServerMessage_PartitionInfo{PartitionInfo: info}},
		{RequestId: largeID, Body: &controlpb.ServerMessage_PoolResized{PoolResized: resized}},
	} {
		require.Less(t, proto.Size(msg), MaxMessageSize, MessageName(msg))
	}
}

func TestPacketsOutsideTheProtocolAreErrorsAndTheirDescriptorsClosed(t *testing.T) {
	valid, err := proto.Marshal(hello(7, 100))
	require.NoError(t, err)
	for _, test := range []struct {
		name   string
		packet []byte
		says   string
	}{
		{"garbage", []byte("GET / HTTP/1.1\r\n\r\n"), "packet of 18 bytes is no such message"},
		{"all ones", bytes.Repeat([]byte{0xff}, 64), "packet of 64 bytes is no such message"},
		{"zeroes", make([]byte, 16), "packet of 16 bytes is no such message"},
		{"cut in a string", valid[:len(valid)-1], "is no such message"},
		{"cut after a tag", valid[:1], "packet of 1 bytes is no such message"},
		{"length beyond the packet", []byte{0x12, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00},
			"packet of 7 bytes is no such message"},
		{"length of 2^63", []byte{0x12, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
			"packet of 10 bytes is no such message"},
		{"varint without end", bytes.Repeat([]byte{0x80}, 20), "packet of 20 bytes is no such message"},
		{"field number 0", []byte{0x00, 0x01}, "packet of 2 bytes is no such message"},
		{"end of a group that was not begun", []byte{0x0c}, "packet of 1 bytes is no such message"},
		{"string that is not UTF-8", []byte{0x12, 0x03, 0x22, 0x01, 0xff}, "packet of 5 bytes is no such message"},
		{"above the limit by one", append(bytes.Clone(valid), make([]byte, MaxMessageSize+1-len(valid))...),
			"packet: got more than 131072 bytes, limit 131072"},
		{"above the limit by far", make([]byte, MaxMessageSize+50_000),
			"packet: got more than 131072 bytes, limit 131072"},
	} {
		t.Run(test.name, func(t *testing.T) {
			leaktest.Check(t)
			c, peer := newRawPair(t)
			files := newFiles(t, 3)
			before := leaktest.Descriptors()
			require.NoError(t, unix.Sendmsg(peer, test.packet, unix.UnixRights(files...), nil, 0))

			fds, err := c.Receive(&controlpb.ClientMessage{})
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			require.ErrorContains(t, err, test.says)
			require.Empty(t, fds)
			require.Empty(t, before.Changes(), "descriptors of a refused packet")

			require.NoError(t, unix.Sendto(peer, valid, 0, nil))
			_, again := c.Receive(&controlpb.ClientMessage{})
			require.Equal(t, err, again, "the error is final")
		})
	}
}

func TestMessageOfALaterVersionKeepsItsKnownFields(t *testing.T) {
	leaktest.Check(t)
	c, peer := newRawPair(t)
	packet, err := proto.Marshal(&controlpb.ClientMessage{RequestId: 9})
	require.NoError(t, err)
	packet = append(packet, 0xa2, 0x06, 0x02, 'h', 'i') // field 100
	require.NoError(t, unix.Sendto(peer, packet, 0, nil))
	got := &controlpb.ClientMessage{}
	_, err = c.Receive(got)
	require.NoError(t, err)
	require.Equal(t, uint64(9), got.GetRequestId())
	require.Nil(t, got.GetBody())
}

func TestReceiveResetsTheMessage(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	require.NoError(t, a.Send(&controlpb.ClientMessage{RequestId: 3}))
	got := hello(8, 10)
	_, err := b.Receive(got)
	require.NoError(t, err)
	requireMessage(t, &controlpb.ClientMessage{RequestId: 3}, got)
}

func TestNewConnTakesSeqpacketSocketsOnly(t *testing.T) {
	leaktest.Check(t)
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	for _, fd := range fds {
		_, err := NewConnFD(fd)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
		require.ErrorContains(t, err, "want SOCK_SEQPACKET")
	}
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	require.NoError(t, err)
	_, err = NewConnFD(tcp)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	_, err = NewConnFD(newFile(t, "no socket"))
	require.ErrorIs(t, err, unix.ENOTSOCK)
	_, err = NewConnFD(-1)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
}

func TestPeerIsTheProcessAtTheOtherEnd(t *testing.T) {
	leaktest.Check(t)
	want := Credentials{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), PID: int32(os.Getpid())}
	a, b := newPair(t)
	dialled, accepted := newSocket(t)
	for name, c := range map[string]*Conn{"pair a": a, "pair b": b, "client": dialled, "daemon": accepted} {
		got, err := c.Peer()
		require.NoError(t, err, name)
		require.Equal(t, want, got, name)
	}
	require.Equal(t, fmt.Sprintf("uid %d gid %d pid %d", want.UID, want.GID, want.PID), want.String())
}

// newSocket returns both ends of a connection over a socket in the file system.
func newSocket(t testing.TB) (dialled, accepted *Conn) {
	t.Helper()
	path := t.TempDir() + "/s"
	listener, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	require.NoError(t, err)
	defer listener.Close()
	dialled, err = Dial(t.Context(), path)
	require.NoError(t, err)
	socket, err := listener.AcceptUnix()
	require.NoError(t, err)
	accepted, err = NewConn(socket)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, dialled.Close())
		require.NoError(t, accepted.Close())
	})
	return dialled, accepted
}

func TestReceiveDoesNotAllocateItsBuffer(t *testing.T) {
	leaktest.Check(t)
	a, b := newPair(t)
	msg, got := hello(1, 0), &controlpb.ClientMessage{}
	roundTrip := func() {
		require.NoError(t, a.Send(msg))
		_, err := b.Receive(got)
		require.NoError(t, err)
	}
	roundTrip()
	const rounds = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range rounds {
		roundTrip()
	}
	runtime.ReadMemStats(&after)
	require.Less(t, (after.TotalAlloc-before.TotalAlloc)/rounds, uint64(8<<10), "bytes allocated a message")
}

func BenchmarkRoundTrip(b *testing.B) {
	for _, fdCount := range []int{0, 2} {
		b.Run(fmt.Sprintf("fds=%d", fdCount), func(b *testing.B) {
			client, server := newPair(b)
			files := newFiles(b, 2)[:fdCount]
			answered := make(chan error, 1)
			go func() {
				request, answer := &controlpb.ClientMessage{}, &controlpb.ServerMessage{}
				for {
					if _, err := server.Receive(request); err != nil {
						answered <- err
						return
					}
					answer.RequestId = request.GetRequestId()
					answer.Body = &controlpb.ServerMessage_Ack{Ack: &controlpb.Ack{}}
					if err := server.Send(answer, files...); err != nil {
						answered <- err
						return
					}
				}
			}()
			request, answer := hello(0, 16), &controlpb.ServerMessage{}
			b.ReportAllocs()
			for b.Loop() {
				request.RequestId++
				if err := client.Send(request); err != nil {
					b.Fatal(err)
				}
				fds, err := client.Receive(answer)
				if err != nil || len(fds) != fdCount || answer.GetRequestId() != request.RequestId {
					b.Fatalf("answer %v with %d descriptors: %v", answer, len(fds), err)
				}
				fds.Close()
			}
			b.StopTimer()
			require.NoError(b, client.Close())
			require.Equal(b, io.EOF, <-answered)
		})
	}
}
