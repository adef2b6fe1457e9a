package ipc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

func TestUserHasABurstAndThenItsShareOfTheDaemonsTime(t *testing.T) {
	var p paces
	now := time.Now()
	require.Zero(t, p.spend(1, paceBurst, now), "the burst")
	require.Equal(t, 16*time.Millisecond, p.spend(1, time.Millisecond, now), "a sixteenth")
	require.Equal(t, 48*time.Millisecond, p.spend(1, 2*time.Millisecond, now), "its connections wait for each other's work")
	require.Zero(t, p.spend(2, time.Millisecond, now), "another user's is another one")
	now = now.Add(48 * time.Millisecond)
	require.Zero(t, p.spend(1, 0, now))
	require.Equal(t, longestPause, p.spend(1, time.Hour, now), "no connection stands still for long")
	now = now.Add(longestPause)
	require.Equal(t, 16*time.Millisecond, p.spend(1, time.Millisecond, now), "and the rest is forgiven")
	now = now.Add(paceBurst * paceShare)
	require.Equal(t, 16*time.Millisecond, p.spend(1, paceBurst, now), "it has most of the burst again")
	require.Zero(t, p.spend(3, -time.Hour, now), "clocks that step back")
}

func TestPacesForgetWhoOwesNothing(t *testing.T) {
	var p paces
	now := time.Now()
	for uid := range uint32(1000) {
		p.spend(uid, time.Millisecond, now)
		now = now.Add(16 * time.Millisecond)
	}
	require.LessOrEqual(t, len(p.paid), 32)
}

func TestUserWhoKeepsTheDaemonBusyWaitsBesideOthersOnly(t *testing.T) {
	const busy, other = 4001, 4002
	for name, c := range map[string]struct {
		idle     []uint32 // users that are connected
		client   func(s *testServer) *rawClient
		heldBack bool
	}{
		"alone":                        {nil, func(s *testServer) *rawClient { return s.greetAs(busy) }, false},
		"beside another":               {[]uint32{other}, func(s *testServer) *rawClient { return s.greetAs(busy) }, true},
		"the other":                    {[]uint32{busy}, func(s *testServer) *rawClient { return s.greetAs(other) }, false},
		"the daemon's own user":        {[]uint32{busy, other}, func(s *testServer) *rawClient { return s.greet() }, false},
		"on one connection of several": {[]uint32{busy, other}, func(s *testServer) *rawClient { return s.greetAs(busy) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			config := serverConfig()
			config.AllowedUIDs = []uint32{busy, other}
			s := startServer(t, config)
			for _, uid := range c.idle {
				s.greetAs(uid)
			}
			s.paces.spend(busy, time.Hour, time.Now())
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
	at, counted = p.paid[uid]
	return at, counted
}

func (p *paces) forget(uid uint32) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.paid, uid)
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
	s.sessionOf(busy).answerFunc(7, largeAnswer, func() (*controlpb.ServerMessage, FDs, error) {
		return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_Ack{Ack: &controlpb.Ack{}}}, nil, nil
	})
	require.NotNil(t, client.next().GetAck())
	_, counted := s.paces.paidAt(busy)
	require.True(t, counted)
}

func TestWaitsAreNoWork(t *testing.T) {
	var p paces
	const clients = 50
	start := time.Now()
	p.begin(start)
	require.Equal(t, time.Second, p.done(time.Second, start.Add(time.Second), time.Minute), "of which nothing is known yet is work")

	start = start.Add(time.Second)
	for range clients {
		p.begin(start)
	}
	now := start.Add(time.Second)
	for i := range clients {
		require.Equal(t, 10*time.Millisecond, p.done(time.Second, now, time.Minute+clients*10*time.Millisecond), "client %d", i)
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
	ours, theirs, err := Pair()
	require.NoError(t, err)
	session := s.newSession(theirs, shuffle.Principal{UID: busy})
	defer session.flight.end()
	defer session.outbox.Close()
	waits := func() bool {
		before := s.paces.totalHeldBack()
		s.paces.spend(busy, time.Hour, time.Now())
		session.waitItsTurn()
		return s.paces.totalHeldBack() > before
	}
	require.True(t, waits())
	require.True(t, waits())
	require.NoError(t, ours.Close())
	require.False(t, waits(), "it has left messages behind")

	ours, theirs, err = Pair()
	require.NoError(t, err)
	require.NoError(t, ours.Close())
	session = s.newSession(theirs, shuffle.Principal{UID: busy})
	defer session.flight.end()
	defer session.outbox.Close()
	require.True(t, waits(), "another connection for the next request is no way around")
}
