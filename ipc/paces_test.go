package ipc

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
