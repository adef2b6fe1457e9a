package daemon

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/leaktest"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// flood sends requests without reading an answer until the daemon takes no more,
// and returns how many it sent.
func (c *rawClient) flood(make func(id uint64) *controlpb.ClientMessage) (sent uint64) {
	c.t.Helper()
	c.SetSendTimeout(50 * time.Millisecond)
	defer c.SetSendTimeout(testPatience)
	for {
		c.nextID++
		msg := make(c.nextID)
		msg.RequestId = c.nextID
		err := c.Send(msg)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.nextID--
			return sent
		}
		require.NoError(c.t, err)
		sent++
	}
}

// underWay is what is under way to all clients.
func (s *testServer) underWay() ipc.Load {
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	return s.flights.total
}

// requireServed checks that a client beside others gets everything it asks for.
func (s *testServer) requireServed() {
	s.t.Helper()
	c := s.greet()
	defer c.leave()
	require.NotNil(s.t, c.ask(listMessage()).GetPartitionList())
	id := shuffle.NewPartitionID()
	created := c.create(id, 1)
	require.NotNil(s.t, c.ask(mappedMessage(created.Epoch)).GetAck())
	gate := c.openGate(1)
	require.NotNil(s.t, c.ask(addInputsMessage(gate, 0, id, 0)).GetAck())
	c.note(func(m *controlpb.ServerMessage) bool { return m.GetInputReady() != nil })
}

func TestClientThatAsksAndDoesNotReadHoldsUpItself(t *testing.T) {
	for name, row := range map[string]struct {
		request     func(uint64) *controlpb.ClientMessage
		descriptors int64
		gates       int
	}{
		"gates": {func(uint64) *controlpb.ClientMessage { return openGateMessage(1) }, flightDescriptors,
			flightDescriptors/2 + 2},
		"lists": {func(uint64) *controlpb.ClientMessage { return listMessage() }, 0, 0},
		"errors": {func(uint64) *controlpb.ClientMessage {
			return &controlpb.ClientMessage{Body: &controlpb.ClientMessage_CloseGate{CloseGate: &controlpb.CloseGate{GateId: 99}}}
		}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t, serverConfig())
			s.requireServed() // whatever is opened on first use
			c := s.greet()
			before := leaktest.Descriptors()
			sent := c.flood(row.request)
			snapshot := s.Snapshot()
			require.LessOrEqual(t, snapshot.Gates, row.gates)
			// Regions and doorbells of the gates, and one that its owner gets. What waits
			// for the client is open nowhere else.
			require.LessOrEqual(t, len(leaktest.Descriptors())-len(before), 2*row.gates+1)
			under := s.underWay()
			require.LessOrEqual(t, under.Bytes, int64(flightBytes)+2*freeFlight)
			require.LessOrEqual(t, under.Descriptors, row.descriptors+2*ipc.MessageDescriptors)
			s.requireServed()

			// Nothing of it is lost on a client that reads late.
			for range sent {
				require.NotNil(t, c.next())
			}
			require.NotNil(t, c.ask(listMessage()).GetPartitionList())
			c.leave()
			s.requireIdle()
			require.Equal(t, ipc.Load{}, s.underWay())
			require.Empty(t, s.flights.active)
			require.Empty(t, s.flights.perUID)
		})
	}
}

// What is under way to those who do not read is no more than half of all there
// may be: who reads finds room.
func TestClientThatReadsFindsRoomBesideManyThatDoNot(t *testing.T) {
	s := startServer(t, serverConfig())
	s.flights.limit.Descriptors = 128
	var hostile []*rawClient
	for range 12 {
		c := s.greet()
		c.flood(func(uint64) *controlpb.ClientMessage { return openGateMessage(1) })
		hostile = append(hostile, c)
	}
	require.LessOrEqual(t, s.underWay().Descriptors, int64(128/2+12*ipc.MessageDescriptors))
	s.requireServed()
	for _, c := range hostile {
		c.leave()
	}
	s.requireIdle()
	require.Equal(t, ipc.Load{}, s.underWay())
}

// The kernel keeps what a client does not receive beyond the end of the
// connection, so the connection counts that long.
func TestConnectionCountsUntilItsClientHasReceivedEverything(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.greet()
	c.flood(func(uint64) *controlpb.ClientMessage { return openGateMessage(1) })
	s.mu.Lock()
	for session := range s.sessions {
		session.kick(shuffle.ErrQuotaExceeded)
	}
	s.mu.Unlock()
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sessions) == 0 // its session has ended
	}, testPatience, time.Millisecond)
	require.Equal(t, 1, s.Snapshot().Connections)
	require.Positive(t, s.underWay().Descriptors)
	for c.next() != nil {
	}
	<-c.served
	require.Zero(t, s.Snapshot().Connections)
	require.Equal(t, ipc.Load{}, s.underWay())
}

func TestConnectionCountsUntilItsClientHasReceivedWhyItEnded(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.connect()
	require.NoError(t, c.Send(listMessage())) // without a hello
	require.Eventually(t, func() bool { return c.unreadPackets() }, testPatience, time.Millisecond)
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return len(s.sessions) == 0
	}, testPatience, time.Millisecond)
	require.Equal(t, 1, s.Snapshot().Connections)
	require.NotNil(t, c.next().GetError())
	<-c.served
	require.Zero(t, s.Snapshot().Connections)
}

// unreadPackets reports whether something has come that was not received.
func (c *rawClient) unreadPackets() (some bool) {
	_ = c.socket.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(poll, 0)
		some = err == nil && n > 0
	})
	return some
}

func TestRefusalsThatNobodyReadsAreFew(t *testing.T) {
	s := startServer(t, serverConfig())
	refuse := func(uid uint32) (client *ipc.Conn, refused chan struct{}) {
		ours, theirs, err := ipc.Pair()
		require.NoError(t, err)
		session := s.newSession(theirs, shuffle.Principal{UID: uid})
		refused = make(chan struct{})
		go func() {
			defer close(refused)
			session.refuse(shuffle.ErrPermission, func() {})
		}()
		return ours, refused
	}
	const flooder, another = 2001, 2002
	kept := make(map[*ipc.Conn]chan struct{})
	for range 3 * mostRefusalsPerUID {
		client, refused := refuse(flooder)
		kept[client] = refused
	}
	require.Eventually(t, func() bool {
		ended := 0
		for _, refused := range kept {
			select {
			case <-refused:
				ended++
			default:
			}
		}
		return ended == len(kept)-mostRefusalsPerUID
	}, testPatience, time.Millisecond)

	client, refused := refuse(another)
	msg := &controlpb.ServerMessage{}
	_, err := client.Receive(msg)
	require.NoError(t, err)
	require.ErrorIs(t, ipc.DecodeError(msg.GetError()), shuffle.ErrPermission, "another user is told")
	<-refused
	require.NoError(t, client.Close())

	told := 0
	for client, refused := range kept {
		if _, err := client.Receive(msg); err == nil {
			told++
		} else {
			require.ErrorIs(t, err, io.EOF)
		}
		<-refused
		require.NoError(t, client.Close())
	}
	require.Equal(t, mostRefusalsPerUID, told)
	require.Zero(t, s.refusals.total)
	require.Empty(t, s.refusals.perUID)
}

func (s *testServer) greetAsOperator() (*rawClient, *controlpb.ServerMessage) {
	c := s.connect()
	return c, c.ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_Hello{
		Hello: &controlpb.Hello{MinVersion: 1, MaxVersion: 1, Operator: true},
	}})
}

func TestOperatorGetsInWhenThereIsNoConnectionLeft(t *testing.T) {
	config := serverConfig()
	config.Limits.Connections = 3
	s := startServer(t, config)
	clients := []*rawClient{s.greet(), s.greet(), s.greet()}
	refused := s.connect().
		ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_Hello{Hello: &controlpb.Hello{MinVersion: 1, MaxVersion: 1}}})
	require.ErrorContains(t, ipc.DecodeError(refused.GetError()), "limit --max-connections of the daemon: 3 in use")
	operator, answer := s.greetAsOperator()
	require.NotNil(t, answer.GetHelloReply())
	require.NotNil(t, operator.ask(listMessage()).GetPartitionList())
	err := ipc.DecodeError(operator.ask(openGateMessage(1)).GetError())
	require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
	require.ErrorContains(t, err, "for an operator's requests only")
	// Ones that stay make room for those that come.
	for range operatorSlots {
		newer, answer := s.greetAsOperator()
		require.NotNil(t, answer.GetHelloReply())
		require.NotNil(t, newer.ask(listMessage()).GetPartitionList())
	}
	operator.requireKicked(shuffle.ErrQuotaExceeded, "newer ones came")
	require.Equal(t, 3, s.Snapshot().Connections)
	for _, c := range clients {
		require.NotNil(t, c.ask(listMessage()).GetPartitionList())
		c.leave()
	}
	require.NotNil(t, s.greet().ask(listMessage()).GetPartitionList(), "there is room again")
}

func TestClientsWithoutAHelloLeaveRoomForOthers(t *testing.T) {
	config := serverConfig()
	config.Limits.Connections = 80
	s := startServer(t, config)
	for range 20 {
		s.connect()
	}
	require.Eventually(t, func() bool { return s.Snapshot().Connections == 20 }, testPatience, time.Millisecond)
	_, answer := s.greetAsOperator()
	require.NotNil(t, answer.GetHelloReply())
	refused := s.connect().
		ask(&controlpb.ClientMessage{Body: &controlpb.ClientMessage_Hello{Hello: &controlpb.Hello{MinVersion: 1, MaxVersion: 1}}})
	require.ErrorContains(t, ipc.DecodeError(refused.GetError()), "connections without a hello")
}

func TestGarbageOfManyClientsFillsNoLog(t *testing.T) {
	log := &syncBuffer{}
	config := serverConfig()
	config.Logger = slog.New(slog.NewTextHandler(log, nil))
	s := startServer(t, config)
	const clients = 200
	for range clients {
		c := s.connect()
		c.sendBytes([]byte{0xff, 0xff, 0xff})
		c.requireKicked(shuffle.ErrProtocol, "no such message")
	}
	require.EqualValues(t, clients, s.Snapshot().Rejects["protocol"])
	s.requireServed()
	require.NoError(t, s.Close())
	lines := log.lines()
	require.LessOrEqual(t, len(lines), 8)
	require.Contains(t, lines[len(lines)-1], "more_like_this=195")
}

func TestPanicWhileAMessageIsMadeEndsOneSessionOnly(t *testing.T) {
	s := startServer(t, serverConfig())
	c := s.greet()
	s.mu.Lock()
	for session := range s.sessions {
		session.notifyFunc(func() (*controlpb.ServerMessage, ipc.FDs, error) { panic("broken") })
	}
	s.mu.Unlock()
	require.Nil(t, c.next())
	<-c.served
	s.requireServed()
}

func TestHeapMemoryIsALimit(t *testing.T) {
	config := serverConfig()
	config.Limits.HeapMemory = connectionHeap*4 + gateHeap + 100*inputHeap
	s := startServer(t, config)
	c := s.greet()
	c.openGate(100)
	err := ipc.DecodeError(c.ask(openGateMessage(100)).GetError())
	require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
	require.ErrorContains(t, err, "limit --max-heap-memory of the daemon")
	s.requireServed()
}

// Users that leave as much unread as they can, together more than there may be, hold
// up none that has little under way.
func TestUserWhoReadsFindsRoomHoweverManyDoNot(t *testing.T) {
	a := newFlights(Limits{Descriptors: 1024}.withDefaults(64 << 20))
	fill := func(uid uint32, more ipc.Load) {
		for f := (&flight{all: a, uid: uid}); a.hasRoom(f, more); f = (&flight{all: a, uid: uid}) {
			a.book(f, more, 1)
		}
	}
	for uid := range uint32(3) {
		fill(2001+uid, ipc.Load{Bytes: ipc.MaxMessageSize})
		fill(2001+uid, ipc.Load{Bytes: 1024, Descriptors: 2})
	}
	require.True(t, a.hasRoom(&flight{all: a, uid: 2004}, sharedAnswer))
	require.True(t, a.hasRoom(&flight{all: a, uid: 2004}, largeAnswer))
	require.False(t, a.hasRoom(&flight{all: a, uid: 2001}, sharedAnswer))
}

func TestDaemonsOwnUserDoesNotPushRootOut(t *testing.T) {
	newSession := func(uid uint32) *session { return &session{who: shuffle.Principal{UID: uid}} }
	silent, greeted, root := newSession(2000), newSession(2000), newSession(0)
	greeted.name.Store(new(string))
	o := operatorReserve{sessions: []*session{root, greeted, silent}}
	require.Equal(t, 2, o.leastImportant())
	o.sessions = []*session{root, greeted}
	require.Equal(t, 1, o.leastImportant())
	o.sessions = []*session{root, newSession(0)}
	require.Equal(t, 0, o.leastImportant(), "the oldest")
}

// Beyond the limits nothing else counts what a client that was pushed out does not read.
func TestOperatorsThatArePushedOutAndDoNotReadAreFew(t *testing.T) {
	config := serverConfig()
	config.Limits.Connections = 1
	s := startServer(t, config)
	s.greet()
	var pushed []*rawClient
	for range 3 * operatorSlots {
		pushed = append(pushed, s.connect())
	}
	require.Eventually(t, func() bool {
		served := 0
		for _, c := range pushed {
			select {
			case <-c.served:
			default:
				served++
			}
		}
		return served <= operatorSlots+mostRefusalsPerUID
	}, testPatience, time.Millisecond)
	for _, c := range pushed {
		c.leave()
	}
	require.Zero(t, s.refusals.total)
}
