package daemon

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// owed returns how long a user's requests wait from now on.
func (p *paces) owed(uid uint32, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u := p.users[uid]; u != nil {
		return max(0, u.paid.Sub(now)-burst)
	}
	return 0
}

func TestUserHasABurstAndThenItsShareOfTheDaemonsTime(t *testing.T) {
	for _, processors := range []int{1, 2, 64} {
		p := newPaces(processors)
		now := time.Now()
		share := paceShare * time.Millisecond / time.Duration(processors) // for a millisecond of work
		p.spend(1, time.Duration(processors)*time.Second/8, now)
		require.Zero(t, p.owed(1, now), "the burst")
		p.spend(1, time.Millisecond, now)
		require.Equal(t, share, p.owed(1, now))
		p.spend(1, 2*time.Millisecond, now)
		require.Equal(t, 3*share, p.owed(1, now), "its connections wait for each other's work")
		p.spend(2, time.Millisecond, now)
		require.Zero(t, p.owed(2, now), "another user's is another one")
		_, pause := p.turn(2, 0, now)
		require.Zero(t, pause)
		_, pause = p.turn(1, 0, now)
		require.Equal(t, 3*share, pause)
		now = now.Add(3 * share)
		_, pause = p.turn(1, 0, now)
		require.Zero(t, pause)

		p.spend(1, time.Hour, now)
		require.Equal(t, longestDebt, p.owed(1, now), "the rest is forgiven")
		_, pause = p.turn(1, 0, now)
		require.Equal(t, longestPause, pause, "it is looked at meanwhile")
		now = now.Add(longestDebt + burst)
		p.spend(1, time.Duration(processors)*time.Second/8+time.Millisecond, now)
		require.Equal(t, share, p.owed(1, now), "it has the burst again")
		p.spend(3, -time.Hour, now)
		require.Zero(t, p.owed(3, now), "clocks that step back")
	}
}

func TestConnectionsOfAUserTakeTurns(t *testing.T) {
	p := newPaces(2)
	now := time.Now()
	for range 100 { // what its requests cost is known
		p.spendOnRequest(1, time.Millisecond, 0, now)
	}
	p.spend(1, time.Hour, now)
	now = now.Add(longestDebt)
	cost, pause := p.turn(1, 0, now)
	require.Zero(t, pause)
	require.InDelta(t, time.Millisecond, cost, 1e3)
	_, pause = p.turn(1, 0, now)
	require.InDelta(t, paceShare/2*time.Millisecond, pause, 1e5, "another connection waits for it")
	now = now.Add(time.Millisecond)
	p.spendOnRequest(1, 3*time.Millisecond, cost, now)
	require.InDelta(t, 3*paceShare/2*time.Millisecond-time.Millisecond, p.owed(1, now), 1e5,
		"it is charged for what it took")
}

// oweALittle has a user's next request wait for a moment.
func (s *testServer) oweALittle(uid uint32) {
	s.paces.mu.Lock()
	defer s.paces.mu.Unlock()
	now := time.Now()
	s.paces.user(uid, now).paid = now.Add(burst + 50*time.Millisecond)
}

func TestPacesForgetWhoOwesNothing(t *testing.T) {
	p := newPaces(2)
	now := time.Now()
	for uid := range uint32(1000) {
		p.spend(uid, time.Millisecond, now)
		now = now.Add(paceShare / 2 * time.Millisecond)
	}
	require.LessOrEqual(t, len(p.users), 32)
}

func TestUserWhoKeepsTheDaemonBusyWaitsBesideOthersOnly(t *testing.T) {
	const busy, other = 4001, 4002
	for name, c := range map[string]struct {
		idle     []uint32 // users that are connected
		client   func(s *testServer) *rawClient
		heldBack bool
	}{
		"alone": {nil, func(s *testServer) *rawClient { return s.greetAs(busy) }, false},
		"beside another": {[]uint32{other}, func(s *testServer) *rawClient { return s.greetAs(busy) },
			true},
		"the other": {[]uint32{busy}, func(s *testServer) *rawClient { return s.greetAs(other) },
			false},
		"the daemon's own user": {[]uint32{busy, other}, func(s *testServer) *rawClient { return s.greet() },
			false},
		"on one connection of several": {[]uint32{busy, other},
			func(s *testServer) *rawClient { return s.greetAs(busy) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := serverConfig()
			config.AllowedUIDs = []uint32{busy, other}
			s := startServer(t, config)
			for _, uid := range c.idle {
				s.greetAs(uid)
			}
			s.oweALittle(busy)
			client := c.client(s)
			require.NotNil(t, client.ask(listMessage()).GetPartitionList())
			require.Equal(t, c.heldBack, s.Snapshot().Totals.HeldBack > 0)
		})
	}
}

// paidAt returns when a user's work is paid for, and whether any was counted.
func (p *paces) paidAt(uid uint32) (at time.Time, counted bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	u := p.users[uid]
	if u == nil {
		return time.Time{}, false
	}
	return u.paid, true
}

func (p *paces) forget(uid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.users, uid)
}

// sessionOf returns the session of a user who has one.
func (s *testServer) sessionOf(uid uint32) *session {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for session := range s.sessions {
		if session.who.UID == uid {
			return session
		}
	}
	s.t.Fatalf("uid %d has no session", uid)
	return nil
}

// forgetWhenIdle forgets what a user owes, once the session waits for a message.
func (s *testServer) forgetWhenIdle(uid uint32) {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		s.paces.forget(uid)
		time.Sleep(10 * time.Millisecond)
		_, counted := s.paces.paidAt(uid)
		return !counted
	}, testPatience, time.Millisecond)
}

func TestAnswersThatAreMadeLaterAreWorkForTheirUser(t *testing.T) {
	const busy = 4001
	config := serverConfig()
	config.AllowedUIDs = []uint32{busy}
	s := startServer(t, config)
	client := s.greetAs(busy)
	s.forgetWhenIdle(busy)
	s.sessionOf(busy).answerFunc(7, largeAnswer, func() (*controlpb.ServerMessage, ipc.FDs, error) {
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_Ack{Ack: &controlpb.Ack{}}}, nil, nil
	})
	require.NotNil(t, client.next().GetAck())
	_, counted := s.paces.paidAt(busy)
	require.True(t, counted)
}

func TestWaitsAreNoWork(t *testing.T) {
	p := newPaces(2)
	const clients = 50
	start := time.Now()
	p.begin(start)
	require.Equal(t, time.Second, p.done(time.Second, start.Add(time.Second), time.Minute),
		"of which nothing is known yet is work")

	start = start.Add(time.Second)
	for range clients {
		p.begin(start)
	}
	now := start.Add(time.Second)
	for i := range clients {
		require.Equal(t, 10*time.Millisecond, p.done(time.Second, now, time.Minute+clients*10*time.Millisecond),
			"client %d", i)
	}
	p.begin(now)
	require.Equal(t, time.Second, p.done(time.Second, now.Add(time.Second), time.Hour), "no more than it took")
}

func TestWaitForAClientToLetGoIsNoWorkForItsUser(t *testing.T) {
	const user = 4001
	config := serverConfig()
	config.AllowedUIDs = []uint32{user}
	s := startServer(t, config)
	client := s.greetAs(user)
	client.ask(listMessage())
	session := s.sessionOf(user)
	s.forgetWhenIdle(user)
	session.kick(errKicked)
	require.Eventually(t, func() bool { // the client has not received why
		_, counted := s.paces.paidAt(user)
		return counted
	}, testPatience, time.Millisecond, "its end is counted before the wait")
	select {
	case <-client.served:
		t.Fatal("the session did not wait for its client")
	default:
	}
}

func TestClientThatIsGoneIsHeldBackOnce(t *testing.T) {
	const busy, other = 4001, 4002
	config := serverConfig()
	config.AllowedUIDs = []uint32{busy, other}
	s := startServer(t, config)
	s.greetAs(busy)
	s.greetAs(other)
	ours, theirs, err := ipc.Pair()
	require.NoError(t, err)
	session := s.newSession(theirs, shuffle.Principal{UID: busy})
	defer session.flight.end()
	defer session.outbox.Close()
	waits := func() bool {
		before := s.paces.totalHeldBack()
		s.oweALittle(busy)
		session.waitItsTurn()
		return s.paces.totalHeldBack() > before
	}
	require.True(t, waits())
	require.True(t, waits())
	require.NoError(t, ours.Close())
	require.False(t, waits(), "it has left messages behind")

	ours, theirs, err = ipc.Pair()
	require.NoError(t, err)
	require.NoError(t, ours.Close())
	session = s.newSession(theirs, shuffle.Principal{UID: busy})
	defer session.flight.end()
	defer session.outbox.Close()
	require.True(t, waits(), "another connection for the next request is no way around")
}

func TestUserWaitsNoLongerThanTheLongestDebtWhateverIsDoneForItMeanwhile(t *testing.T) {
	p := newPaces(2)
	now := time.Now()
	waited := time.Duration(0)
	for ; waited < longestDebt; waited += longestPause {
		p.spend(1, time.Hour, now) // connections that come and go wait for nothing
		_, pause := p.turn(1, waited, now)
		require.Equal(t, longestPause, pause)
		now = now.Add(longestPause)
	}
	p.spend(1, time.Hour, now)
	_, pause := p.turn(1, waited, now)
	require.Zero(t, pause)
}

func TestUserWaitsNoLongerOnceTheOthersAreGone(t *testing.T) {
	const busy, other = 4001, 4002
	config := serverConfig()
	config.AllowedUIDs = []uint32{busy, other}
	s := startServer(t, config)
	client := s.greetAs(busy)
	neighbour := s.greetAs(other)
	s.paces.spend(busy, time.Hour, time.Now())
	id := client.begin(listMessage())
	require.Eventually(t, func() bool { return s.paces.totalHeldBack() > 0 }, testPatience, time.Millisecond)
	neighbour.leave()
	require.NotNil(t, client.answer(id).GetPartitionList())
	require.Positive(t, s.paces.owed(busy, time.Now()), "it was not paid for")
}

func TestRequestsOfAClientThatIsGoneAreDropped(t *testing.T) {
	const busy, other = 4001, 4002
	config := serverConfig()
	config.AllowedUIDs = []uint32{busy, other}
	s := startServer(t, config)
	s.greetAs(other)
	client := s.greetAs(busy)
	s.paces.spend(busy, time.Hour, time.Now())
	before := s.nextID.Load()
	for range 10 {
		client.begin(openGateMessage(1))
	}
	client.leave()
	require.Equal(t, before, s.nextID.Load(), "gates that nobody would have got")

	late := &session{isLate: true}
	require.True(t, late.isPointless(createMessage(shuffle.NewPartitionID(), 1)))
	require.True(t, late.isPointless(listMessage()))
	require.False(t, late.isPointless(closeChannelMessage(1, 0, true)), "the producer is to hear of it")
	require.False(t, late.isPointless(finishMessage(1)), "so are consumers")
	require.False(t, new(session).isPointless(listMessage()))
}
