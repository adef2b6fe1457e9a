package gate

import (
	"testing"
	"time"

	"shuffled/memseg"
)

// SleepLong has the gates of a test sleep for a minute if they are not woken, so that
// one that ought to be woken holds the test up.
func SleepLong(t testing.TB) { SleepFor(t, memseg.MaxParkTime) }

// SleepFor sets how long the gates of a test sleep at first.
func SleepFor(t testing.TB, d time.Duration) {
	before := lookInterval
	lookInterval = d
	t.Cleanup(func() { lookInterval = before })
}

// LongestSleep is how long the next sleep of the gate may be.
func (g *InputGate) LongestSleep() time.Duration { return max(g.patience, lookInterval) }

// MaxThreshold is what it is on this machine.
var MaxThreshold = maxThreshold

// SetThreshold makes a channel as busy as one that gets so many bytes in fillTime.
// It returns how much of that the channel leaves unread.
func (g *InputGate) SetThreshold(channel, bytes int) (leave int) {
	c := &g.channels[channel]
	c.threshold = bytes
	return c.leave()
}

// LookInterval is the bound of a sleep that the documentation names.
var LookInterval = lookInterval

// SleepLong has the next sleep of a gate of one channel last for a minute if it may and
// nothing rings.
func (g *InputGate) SleepLong() { g.patience = memseg.MaxParkTime }
