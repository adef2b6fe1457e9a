package daemon

import (
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// testPatience bounds what a test waits for; none depends on its length.
const testPatience = 30 * time.Second

func serverConfig() Config {
	return Config{Memory: 1 << 20, SegmentSize: 4096, FloatingTarget: 64 << 10, FirstOrdinal: 1<<64 - 5,
		Version: "test"}
}

// A testServer is a server whose mappings and descriptors are counted.
type testServer struct {
	*Server
	t testing.TB
}

func startServer(t testing.TB, config Config) *testServer {
	t.Helper()
	return startServerWith(t, config, memoryCalls{(*memseg.Memfd).Commit, (*memseg.Memfd).Collapse, hugePageRate})
}

func startServerWith(t testing.TB, config Config, calls memoryCalls) *testServer {
	t.Helper()
	leaktest.Check(t)
	s, err := newServer(config, calls, time.Millisecond)
	require.NoError(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
	})
	return &testServer{s, t}
}

// requireIdle waits until the server holds nothing for anybody.
func (s *testServer) requireIdle() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		now := s.Snapshot()
		return len(now.Partitions) == 0 && now.Gates == 0 && now.ControlBytes == 0 && now.Pool.Used == 0 &&
			now.Pool.Grants == 0
	}, testPatience, time.Millisecond)
}

// A rawClient speaks the protocol message by message.
type rawClient struct {
	*ipc.Conn
	socket syscall.RawConn
	t      testing.TB
	nextID uint64
	notes  []*controlpb.ServerMessage // came before the answer that was waited for
	fds    ipc.FDs                    // of the answer
	served chan struct{}
}

// newRawClient returns a client and the server's end of its connection.
func newRawClient(t testing.TB) (c *rawClient, theirs *ipc.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	require.NoError(t, err)
	file := os.NewFile(uintptr(fds[0]), "client")
	socket, err := net.FileConn(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	raw, err := socket.(*net.UnixConn).SyscallConn()
	require.NoError(t, err)
	ours, err := ipc.NewConn(socket.(*net.UnixConn))
	require.NoError(t, err)
	theirs, err = ipc.NewConnFD(fds[1])
	require.NoError(t, err)
	return &rawClient{Conn: ours, socket: raw, t: t, served: make(chan struct{})}, theirs
}

// connect returns a client that has not said hello.
func (s *testServer) connect() *rawClient {
	s.t.Helper()
	c, theirs := newRawClient(s.t)
	go func() {
		defer close(c.served)
		if err := s.ServeConn(theirs); err != nil {
			s.t.Error(err)
		}
	}()
	s.t.Cleanup(c.leave)
	return c
}

// greetAs returns a client that is taken for one of another user.
func (s *testServer) greetAs(uid uint32) *rawClient {
	s.t.Helper()
	c, theirs := newRawClient(s.t)
	require.True(s.t, s.begin(nil))
	go func() {
		defer close(c.served)
		defer s.done.Done()
		s.newSession(theirs, shuffle.Principal{UID: uid, GID: uid, PID: int32(os.Getpid())}).serve(func() {})
	}()
	s.t.Cleanup(c.leave)
	c.hello()
	return c
}

func (s *testServer) greet() *rawClient {
	s.t.Helper()
	c := s.connect()
	c.hello()
	return c
}

func (c *rawClient) hello() {
	c.t.Helper()
	require.NotNil(c.t, c.ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_Hello{
		Hello: &controlpb.Hello{MinVersion: 1, MaxVersion: 1, ClientName: "raw"},
	}}).GetHelloReply())
}

// leave ends the connection as the kernel does for a process that dies.
func (c *rawClient) leave() {
	c.fds.Close()
	require.NoError(c.t, c.Close())
	<-c.served
}

// next returns the next message, nil at the end of the connection.
func (c *rawClient) next() *controlpb.ServerMessage {
	c.t.Helper()
	msg := &controlpb.ServerMessage{}
	fds, err := c.Receive(msg)
	c.fds.Close()
	if err != nil {
		c.fds = nil
		return nil
	}
	c.fds = fds
	return msg
}

// ask sends a request and returns its answer, nil at the end of the connection.
func (c *rawClient) ask(msg *controlpb.ClientMessage) *controlpb.ServerMessage {
	c.t.Helper()
	return c.answer(c.begin(msg))
}

// begin sends a request whose answer is fetched later.
func (c *rawClient) begin(msg *controlpb.ClientMessage) (id uint64) {
	c.t.Helper()
	c.nextID++
	msg.RequestId = c.nextID
	c.tell(msg)
	return c.nextID
}

// answer returns the answer to a request, nil at the end of the connection.
func (c *rawClient) answer(id uint64) *controlpb.ServerMessage {
	c.t.Helper()
	for {
		answer := c.next()
		if answer == nil || answer.RequestId == id {
			return answer
		}
		require.Zero(c.t, answer.RequestId)
		c.notes = append(c.notes, answer)
	}
}

// take asks for segments of a partition until it has got so many more.
func (c *rawClient) take(created *controlpb.PartitionCreated, n int) (segments []int) {
	c.t.Helper()
	c.tell(wantMessage(created.Epoch, uint32(n)))
	for len(segments) < n {
		m := c.note(func(m *controlpb.ServerMessage) bool { return m.GetPoolResized() != nil }).GetPoolResized()
		granted, err := ipc.DecodeSegments("granted", m.Granted, int(created.PoolMax))
		require.NoError(c.t, err)
		segments = append(segments, granted...)
	}
	return segments
}

func (c *rawClient) tell(msg *controlpb.ClientMessage) {
	c.t.Helper()
	require.NoError(c.t, c.Send(msg))
}

// note returns the next notification that matches.
func (c *rawClient) note(match func(*controlpb.ServerMessage) bool) *controlpb.ServerMessage {
	c.t.Helper()
	for {
		var msg *controlpb.ServerMessage
		if len(c.notes) > 0 {
			msg, c.notes = c.notes[0], c.notes[1:]
		} else {
			msg = c.next()
			require.NotNil(c.t, msg, "the connection ended")
		}
		if match(msg) {
			return msg
		}
	}
}

// requireKicked checks that the server says why and ends the connection.
func (c *rawClient) requireKicked(want error, text string) {
	c.t.Helper()
	var said error
	for msg := c.next(); msg != nil; msg = c.next() {
		if msg.GetError() != nil {
			said = ipc.DecodeError(msg.GetError())
		}
	}
	require.ErrorIs(c.t, said, want)
	require.ErrorContains(c.t, said, text)
	<-c.served
}

func createMessage(id shuffle.PartitionID, subpartitions uint32) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_CreatePartition{CreatePartition: &controlpb.CreatePartition{
			PartitionId: id[:], Type: 2, Subpartitions: subpartitions,
		}},
	}
}

func (c *rawClient) create(id shuffle.PartitionID, subpartitions uint32) *controlpb.PartitionCreated {
	c.t.Helper()
	answer := c.ask(createMessage(id, subpartitions))
	require.NotNil(c.t, answer.GetPartitionCreated(), "%v", answer)
	require.Len(c.t, c.fds, 2)
	return answer.GetPartitionCreated()
}

func mappedMessage(epoch uint64) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_PartitionMapped{PartitionMapped: &controlpb.PartitionMapped{Epoch: epoch}},
	}
}

func finishMessage(epoch uint64) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_FinishPartition{FinishPartition: &controlpb.FinishPartition{Epoch: epoch}},
	}
}

func releaseMessage(epoch uint64) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_ReleasePartition{ReleasePartition: &controlpb.ReleasePartition{Epoch: epoch}},
	}
}

func wantMessage(epoch uint64, count uint32) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_SegmentsWanted{
			SegmentsWanted: &controlpb.SegmentsWanted{Epoch: epoch, Count: count},
		},
	}
}

func returnMessage(epoch uint64, ranges ...*controlpb.SegmentRange) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_SegmentsReturned{
			SegmentsReturned: &controlpb.SegmentsReturned{Epoch: epoch, Segments: ranges},
		},
	}
}

func openGateMessage(channels uint32) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_OpenGate{OpenGate: &controlpb.OpenGate{Channels: channels}},
	}
}

func addInputsMessage(gate uint64, first uint32, id shuffle.PartitionID,
	subpartitions ...uint32) *controlpb.ClientMessage {
	m := &controlpb.AddInputs{GateId: gate, FirstChannel: first, TimeoutMs: uint64(time.Hour / time.Millisecond)}
	for _, sub := range subpartitions {
		m.Inputs = append(m.Inputs, &controlpb.Input{PartitionId: id[:], Subpartition: sub})
	}
	return &controlpb.ClientMessage{Body: &controlpb.ClientMessage_AddInputs{AddInputs: m}}
}

func closeChannelMessage(gate uint64, channel uint32, consumed bool) *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_CloseChannel{
			CloseChannel: &controlpb.CloseChannel{GateId: gate, Channel: channel, Consumed: consumed},
		},
	}
}

func (c *rawClient) openGate(channels uint32) uint64 {
	c.t.Helper()
	answer := c.ask(openGateMessage(channels))
	require.NotNil(c.t, answer.GetGateOpened(), "%v", answer)
	require.Len(c.t, c.fds, 2)
	return answer.GetGateOpened().GetGateId()
}

func listMessage() *controlpb.ClientMessage {
	return &controlpb.ClientMessage{
		Body: &controlpb.ClientMessage_ListPartitions{ListPartitions: &controlpb.ListPartitions{}},
	}
}

func (c *rawClient) sendBytes(packet []byte) {
	c.t.Helper()
	require.NoError(c.t, c.socket.Control(func(fd uintptr) {
		require.NoError(c.t, unix.Sendto(int(fd), packet, 0, nil))
	}))
}
