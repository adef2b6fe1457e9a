package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// outboxLimit is how many messages may wait for a client that does not read. A
// gate of the largest size has one for each input at once.
const outboxLimit = 1 << 18

// errNoHello ends a session whose client says nothing.
var errNoHello = fmt.Errorf("no hello in time: %w", shuffle.ErrProtocol)

// A session is the daemon's side of one client's connection. Its goroutine alone
// receives, handles messages one by one, and owns the gates; what other
// goroutines have to say to the client goes through the outbox.
type session struct {
	server *Server
	id     uint64
	conn   *ipc.Conn
	outbox *ipc.Outbox
	flight *flight
	who    shuffle.Principal
	log    *slog.Logger
	use    account // booked; what a greeting takes is given back with it
	// notAdmitted is why an operator's session, which is let in nevertheless, is
	// served an operator's requests only.
	notAdmitted error

	name    atomic.Pointer[string] // from hello, nil before
	started time.Time
	active  atomic.Int64 // when it last sent something, in ns

	kicked  atomic.Pointer[error] // why the daemon ends it
	greeted bool
	// heldBack says that it has waited its turn.
	heldBack bool
	// isLate says that the client is gone and the turn of its request has not come.
	isLate bool
	// charged is what its turn has cost its user, of the request that it is at.
	charged time.Duration
	gates   map[uint64]*hostedGate

	mu         sync.Mutex
	creations  map[uint64]*creation     // under way, by the id of their request
	partitions map[uint64]*hostedRegion // produced by this client, by epoch
	gone       bool                     // no partitions are added any more
}

// serveConn runs the session of a client to its end, and calls decided once it has a
// session or is refused.
func (s *Server) serveConn(conn *ipc.Conn, decided func()) {
	decided = sync.OnceFunc(decided)
	defer decided()
	peer, err := conn.Peer()
	if err != nil {
		s.log.Warn("new client", "error", err)
		_ = conn.Close()
		return
	}
	conn.RefuseDescriptors()
	s.newSession(conn, shuffle.Principal{UID: peer.UID, GID: peer.GID, PID: peer.PID}).serve(decided)
}

func (s *session) serve(decided func()) {
	defer s.flight.end()
	var err error
	s.works(func() { err = s.admit() })
	if err != nil {
		s.refuse(err, decided)
		return
	}
	decided()
	reason := s.run()
	s.works(func() { s.end(reason) })
	s.takeLeave(reason)
	s.server.operators.leave(s)
	s.server.ledger.release(s.who.UID, s.use)
}

// newSession returns the session of a client that is not admitted yet.
func (s *Server) newSession(conn *ipc.Conn, who shuffle.Principal) *session {
	session := &session{
		server: s, id: s.nextID.Add(1), conn: conn, who: who, log: s.log.With("uid", who.UID, "pid", who.PID),
		partitions: make(map[uint64]*hostedRegion), gates: make(map[uint64]*hostedGate),
		creations: make(map[uint64]*creation),
		started:   s.config.Now(),
	}
	session.flight = &flight{all: s.flights, uid: who.UID, conn: conn}
	session.outbox = ipc.NewBoundedOutbox(conn, outboxLimit, session.flight, s.sendPutOff)
	return session
}

// admit counts the session, or refuses the peer.
func (s *session) admit() error {
	if !s.server.mayConnect(s.who) {
		return fmt.Errorf("uid %d gid %d may not connect to this daemon: %w", s.who.UID, s.who.GID,
			shuffle.ErrPermission)
	}
	use := account{connections: 1, greeting: 1, heap: connectionHeap}
	if err := s.server.ledger.reserve(s.who.UID, use); err == nil {
		s.use = use
	} else if !isPrivileged(s.who.UID) {
		return err
	} else {
		s.notAdmitted = err
		s.server.operators.enter(s)
	}
	s.server.mu.Lock()
	defer s.server.mu.Unlock()
	if s.server.closed {
		s.server.operators.leave(s)
		s.server.ledger.release(s.who.UID, s.use)
		return fmt.Errorf("the daemon is %w", shuffle.ErrClosed)
	}
	s.server.sessions[s] = struct{}{}
	return nil
}

// works does something for the client and counts the time for its user. What it does
// must not wait for the client. For any goroutine.
func (s *session) works(f func()) {
	s.measure(f, func(work time.Duration, now time.Time) { s.server.paces.spend(s.who.UID, work, now) })
}

// worksOnRequest is works for a request whose turn has come.
func (s *session) worksOnRequest(f func()) {
	s.measure(f, func(work time.Duration, now time.Time) {
		s.server.paces.spendOnRequest(s.who.UID, work, s.charged, now)
	})
}

func (s *session) measure(f func(), spend func(work time.Duration, now time.Time)) {
	if isPrivileged(s.who.UID) {
		f()
		return
	}
	p, started := &s.server.paces, time.Now()
	p.begin(started)
	defer func() {
		now := time.Now()
		spend(p.done(now.Sub(started), now, processorTime()), now)
	}()
	f()
}

// waitItsTurn waits until what was done for the user is paid for, if there are others.
// A client that is gone waits once, not for each message that it has left behind: it is
// to be found out soon.
func (s *session) waitItsTurn() {
	s.charged, s.isLate = 0, false
	if isPrivileged(s.who.UID) {
		return
	}
	began := time.Now()
	for p := &s.server.paces; s.server.ledger.isShared(); {
		now := time.Now()
		charged, pause := p.turn(s.who.UID, now.Sub(began), now)
		if s.charged = charged; pause == 0 {
			return
		}
		if s.isLate = s.heldBack && s.conn.PeerHasEnded(); s.isLate {
			return
		}
		s.heldBack = true
		s.server.throttle.Warn(s.log, "a user keeps the daemon busy beside others, and its requests wait", "pause",
			pause)
		isOver := !s.pause(pause) || s.kicked.Load() != nil
		p.waited(time.Since(now))
		if isOver {
			return
		}
	}
}

// isPointless reports whether a request is late, and only its client would have had
// something of it. What ends something is for others, too.
func (s *session) isPointless(msg *controlpb.ClientMessage) bool {
	if !s.isLate {
		return false
	}
	switch msg.GetBody().(type) {
	case *controlpb.ClientMessage_Hello, *controlpb.ClientMessage_SegmentsReturned,
		*controlpb.ClientMessage_FinishPartition, *controlpb.ClientMessage_FailPartition,
		*controlpb.ClientMessage_ReleasePartition, *controlpb.ClientMessage_ClosePartition,
		*controlpb.ClientMessage_CloseChannel, *controlpb.ClientMessage_CloseGate,
		*controlpb.ClientMessage_PartitionMapped, *controlpb.ClientMessage_AbandonCreation:
		return false
	}
	return true
}

// pause waits, and reports false if the session has nothing more to wait for.
func (s *session) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.outbox.Ended():
	case <-s.server.stopping:
	}
	return false
}

// receive waits for the client to read, for its next message, which ends the greeting,
// and for its turn.
func (s *session) receive(msg *controlpb.ClientMessage, greeting *time.Timer) error {
	s.outbox.WaitForQuiet()
	if err := s.conn.WaitForPacket(); err != nil {
		return err
	}
	greeting.Stop()
	s.waitItsTurn()
	_, err := s.conn.Receive(msg)
	if err == nil {
		s.active.Store(s.server.config.Now().UnixNano())
	}
	return err
}

// refuse tells the client why it has no session, as long as few have not read that.
// The message answers no request: it is about the connection.
func (s *session) refuse(err error, decided func()) {
	s.server.statistics.reject(err)
	if s.server.refusals.enter(s.who.UID) {
		s.tellWhy(err)
		left := s.conn.Linger()
		s.flushAndClose()
		defer s.server.refusals.leave(s.who.UID)
		defer left.Wait(s.server.stopping)
	} else {
		s.outbox.Close()
	}
	decided()
	s.server.throttle.Warn(s.log, "client refused", "error", err)
}

// flushAndClose sends what is queued, to a client that reads, and closes.
func (s *session) flushAndClose() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.outbox.Shutdown(ctx)
}

// run handles messages until the connection ends, and returns why.
func (s *session) run() (reason error) {
	greeting := time.AfterFunc(s.server.config.HelloTimeout, func() { s.kick(errNoHello) })
	defer greeting.Stop()
	defer func() {
		if r := recover(); r != nil {
			s.log.Error("session panicked", "panic", r, "stack", string(debug.Stack()))
			reason = fmt.Errorf("the daemon failed to handle a message")
		}
	}()
	for {
		msg := &controlpb.ClientMessage{}
		err := s.receive(msg, greeting)
		if reason := s.kicked.Load(); reason != nil {
			return *reason
		}
		if err != nil && !errors.Is(err, shuffle.ErrProtocol) {
			if sent := s.outbox.Err(); sent != nil && !errors.Is(err, io.EOF) {
				return sent
			}
			return err
		}
		if err != nil {
			msg.Reset() // what was read of it means nothing
		} else if !s.isPointless(msg) {
			s.worksOnRequest(func() { err = s.handle(msg) })
		}
		if err == nil {
			continue
		}
		if s.server.isClosed() {
			return err // the client is to see the end of the connection
		}
		s.refuseRequest(msg.GetRequestId(), err)
		if errors.Is(err, shuffle.ErrProtocol) || errors.Is(err, shuffle.ErrVersionMismatch) || !s.greeted {
			return err
		}
	}
}

// refuseRequest answers a request with an error. For any goroutine.
func (s *session) refuseRequest(id uint64, err error) {
	s.server.statistics.reject(err)
	s.reply(id, &controlpb.ServerMessage{Body: &controlpb.ServerMessage_Error{Error: ipc.EncodeError(err)}})
	s.log.Debug("request refused", "error", err)
}

// end gives up everything that the client had.
func (s *session) end(reason error) {
	if panicked := (*ipc.MessagePanic)(nil); errors.As(reason, &panicked) {
		s.log.Error("session panicked", "panic", panicked.Value, "stack", string(panicked.Stack))
	}
	cause := "its connection ended"
	if !errors.Is(reason, io.EOF) && !errors.Is(reason, shuffle.ErrClosed) {
		cause = "the daemon closed its connection: " + reason.Error()
	}
	s.server.mu.Lock()
	delete(s.server.sessions, s)
	s.server.mu.Unlock()
	s.mu.Lock()
	s.gone = true
	creations, partitions := slices.Collect(maps.Values(s.creations)), slices.Collect(maps.Values(s.partitions))
	s.mu.Unlock()
	for _, c := range creations {
		c.abandon(fmt.Errorf("%s: %w", cause, shuffle.ErrClosed))
	}
	for _, r := range partitions {
		r.producerClosed("the producer is gone, " + cause)
	}
	for _, g := range s.gates {
		for _, c := range g.channels {
			if c != nil {
				c.request.ConnectionEnded("the consumer is gone, " + cause)
			}
		}
		g.free()
	}
}

// takeLeave tells the client what is left to say, closes the connection, and waits until
// the client has let go of it.
func (s *session) takeLeave(reason error) {
	left := ipc.NothingLingers
	if s.outbox.IsUnused() {
		// It has received all there was.
	} else if s.notAdmitted == nil {
		left = s.conn.Linger()
	} else if s.server.refusals.enter(s.who.UID) { // nothing else counts it
		defer s.server.refusals.leave(s.who.UID)
		if kicked := s.kicked.Load(); kicked != nil {
			s.tellWhy(*kicked)
		}
		left = s.conn.Linger()
	}
	s.flushAndClose() // the last message may say why
	// Last, since nobody who waits for this may wait for a log.
	switch {
	case errors.Is(reason, io.EOF):
		s.log.Debug("client left")
	case errors.Is(reason, shuffle.ErrClosed):
		s.log.Debug("client closed", "reason", reason)
	default:
		s.server.throttle.Warn(s.log, "client closed", "reason", reason)
	}
	left.Wait(s.server.stopping)
}

// reply answers a request. Errors end the session through its Receive.
func (s *session) reply(requestID uint64, msg *controlpb.ServerMessage, fds ...int) {
	msg.RequestId = requestID
	if err := s.outbox.Post(msg, fds...); err != nil && errors.Is(err, shuffle.ErrInvalidArgument) {
		s.log.Error("answer cannot be sent", "error", err)
	}
}

// answerFunc answers a request with a message that is made when its turn comes,
// and is at most so large.
func (s *session) answerFunc(id uint64, most ipc.Load, build func() (*controlpb.ServerMessage, ipc.FDs, error)) {
	_ = s.outbox.PostMost(asNotification(func() (msg *controlpb.ServerMessage, fds ipc.FDs, err error) {
		if most.Descriptors > 0 {
			msg, fds, err = build() // it may wait for descriptors
		} else {
			s.works(func() { msg, fds, err = build() })
		}
		if err != nil {
			s.server.statistics.reject(err)
			msg, err = &controlpb.ServerMessage{Body: &controlpb.ServerMessage_Error{Error: ipc.EncodeError(err)}}, nil
		}
		msg.RequestId = id
		return msg, fds, err
	}), most, most.Descriptors > 0) // an outbox that has ended has nobody to tell
}

// What an answer of an operator's request and one with descriptors take at most.
var (
	largeAnswer  = ipc.Load{Bytes: ipc.MaxMessageSize + ipc.PacketCost}
	sharedAnswer = ipc.Load{Bytes: ipc.SmallMessage, Descriptors: ipc.MessageDescriptors}
)

// acknowledge answers a request that has no other answer.
func (s *session) acknowledge(requestID uint64) {
	s.reply(requestID, &controlpb.ServerMessage{Body: &controlpb.ServerMessage_Ack{Ack: &controlpb.Ack{}}})
}

// notifyFunc queues a notification that is made when its turn comes. It is for
// any goroutine, also with locks held.
func (s *session) notifyFunc(build func() (*controlpb.ServerMessage, ipc.FDs, error)) {
	_ = s.outbox.PostFunc(asNotification(build)) // an outbox that has ended has nobody to tell
}

// handle does what a message asks for. An error is the answer; one that wraps
// shuffle.ErrProtocol ends the session.
func (s *session) handle(msg *controlpb.ClientMessage) error {
	if hello := msg.GetHello(); hello != nil {
		return s.handleHello(msg.GetRequestId(), hello)
	}
	if !s.greeted {
		return fieldError("client_message.body", ipc.MessageName(msg), "hello as the first message",
			shuffle.ErrProtocol)
	}
	id := msg.GetRequestId()
	switch body := msg.GetBody().(type) {
	case *controlpb.ClientMessage_SegmentsWanted:
		return s.handleSegmentsWanted(body.SegmentsWanted)
	case *controlpb.ClientMessage_SegmentsReturned:
		return s.handleSegmentsReturned(body.SegmentsReturned)
	case *controlpb.ClientMessage_ClosePartition:
		return s.handleClosePartition(body.ClosePartition)
	case *controlpb.ClientMessage_CloseChannel:
		return s.handleCloseChannel(body.CloseChannel)
	case *controlpb.ClientMessage_AbandonCreation:
		return s.handleAbandonCreation(body.AbandonCreation)
	}
	if id == 0 {
		return fieldError("client_message.request_id", 0, "a number above 0 with "+ipc.MessageName(msg),
			shuffle.ErrProtocol)
	}
	switch body := msg.GetBody().(type) {
	case *controlpb.ClientMessage_ListPartitions:
		return s.handleListPartitions(id, body.ListPartitions)
	case *controlpb.ClientMessage_InspectPartition:
		return s.handleInspectPartition(id, body.InspectPartition)
	case *controlpb.ClientMessage_ListClients:
		return s.handleListClients(id, body.ListClients)
	case *controlpb.ClientMessage_KickClient:
		return s.handleKickClient(id, body.KickClient)
	case *controlpb.ClientMessage_WithdrawPartition:
		return s.handleWithdrawPartition(id, body.WithdrawPartition)
	}
	if s.notAdmitted != nil {
		return fmt.Errorf("this connection is for an operator's requests only: %w", s.notAdmitted)
	}
	switch body := msg.GetBody().(type) {
	case *controlpb.ClientMessage_CreatePartition:
		return s.handleCreatePartition(id, body.CreatePartition)
	case *controlpb.ClientMessage_PartitionMapped:
		return s.handlePartitionMapped(id, body.PartitionMapped)
	case *controlpb.ClientMessage_FinishPartition:
		return s.handleFinishPartition(id, body.FinishPartition)
	case *controlpb.ClientMessage_FailPartition:
		return s.handleFailPartition(id, body.FailPartition)
	case *controlpb.ClientMessage_ReleasePartition:
		return s.handleReleasePartition(id, body.ReleasePartition)
	case *controlpb.ClientMessage_OpenGate:
		return s.handleOpenGate(id, body.OpenGate)
	case *controlpb.ClientMessage_AddInputs:
		return s.handleAddInputs(id, body.AddInputs)
	case *controlpb.ClientMessage_CloseGate:
		return s.handleCloseGate(id, body.CloseGate)
	case *controlpb.ClientMessage_NextAttempt:
		return s.handleNextAttempt(id, body.NextAttempt)
	}
	return fieldError("client_message.body", "a message that this version does not know",
		"one of "+ipc.VersionRange(ipc.MinProtocolVersion, ipc.MaxProtocolVersion), shuffle.ErrProtocol)
}

// mayStay ends the greeting. A session beyond the limits is an operator's, or none.
func (s *session) mayStay(operator bool) error {
	if s.notAdmitted != nil {
		if !operator {
			return s.notAdmitted
		}
		return nil
	}
	greeting := account{greeting: 1}
	s.server.ledger.release(s.who.UID, greeting)
	s.use.add(greeting, -1)
	return nil
}

func (s *session) handleHello(id uint64, m *controlpb.Hello) error {
	if s.greeted {
		return fieldError("client_message.body", "a second hello", "one", shuffle.ErrProtocol)
	}
	if name := m.GetClientName(); len(name) > shuffle.MaxNameLength || !utf8.ValidString(name) {
		return fieldError("hello.client_name", fmt.Sprintf("%d bytes", len(name)),
			fmt.Sprintf("at most %d of UTF-8", shuffle.MaxNameLength), shuffle.ErrProtocol)
	}
	version, err := ipc.Negotiate(m.GetMinVersion(), m.GetMaxVersion(), ipc.MinProtocolVersion, ipc.MaxProtocolVersion)
	if err != nil {
		return err
	}
	if err := s.mayStay(m.GetOperator()); err != nil {
		return err
	}
	s.flight.setOperator(m.GetOperator() && isPrivileged(s.who.UID))
	s.greeted = true
	name := m.GetClientName()
	s.name.Store(&name)
	if name != "" {
		s.log = s.log.With("client", name)
	}
	config := &s.server.config
	s.reply(id, &controlpb.ServerMessage{Body: &controlpb.ServerMessage_HelloReply{HelloReply: &controlpb.HelloReply{
		Version: version, Features: uint64(ipc.CommonFeatures(ipc.Features(m.GetFeatures()), ipc.SupportedFeatures)),
		BootId: s.server.bootID[:], DaemonVersion: config.Version,
		Limits: &controlpb.Limits{
			SegmentSize: uint32(config.SegmentSize), TotalSegments: uint64(config.Memory / int64(config.SegmentSize)),
			MaxPartitions: uint32(config.Limits.Partitions), MaxInputsPerGate: uint32(config.Limits.InputsPerGate),
		},
	}}})
	return nil
}
