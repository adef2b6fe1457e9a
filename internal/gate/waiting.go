package gate

import (
	"context"
	"fmt"
	"time"

	"shuffled/internal/standstill"
	"shuffled/memseg"
)

// queueNotified queues channels that others gave news of.
func (g *InputGate) queueNotified() {
	// The doorbell first: a ring that is taken note of before what it rang for is
	// looked at would not end the next sleep.
	if rings := g.bell.Rings(); rings != g.rings {
		g.rings = rings
		g.bell.Collect(len(g.channels), g.ready.push)
	}
	if g.hasMail.Load() {
		g.readMail()
	}
	const pollsPerSweep = 256
	if g.polls++; g.polls%pollsPerSweep == 0 {
		now := time.Now()
		if len(g.ahead) > 0 {
			g.sweepAhead(now)
		}
		g.lookEverywhere(now)
	}
}

// arm leaves a channel until its producer rings. If something came meanwhile, it
// is queued again. A channel whose producer waits for what the user keeps has an
// error.
func (g *InputGate) arm(channel int) error {
	c := &g.channels[channel]
	now := time.Now()
	if c.view.HoldsBack() {
		if err := c.view.CheckStuck(now); err != nil {
			g.ready.push(channel)
			return g.channelError(channel, err)
		}
		if !c.isKeeping {
			c.isKeeping = true
			g.keeping = append(g.keeping, channel)
		}
	}
	c.adapt(now)
	if !c.view.Arm(c.threshold) {
		g.ready.push(channel)
		return nil
	}
	if c.threshold > 0 && !c.isAhead {
		c.isAhead = true
		g.ahead = append(g.ahead, channel)
	}
	return nil
}

// keepInterval is how often a gate looks at channels whose user keeps so many
// buffers that their producers may be waiting for them.
const keepInterval = 50 * time.Millisecond

// lookAtKeeping queues those channels once in a while.
func (g *InputGate) lookAtKeeping(now time.Time) {
	if len(g.keeping) == 0 || now.Before(g.nextKeeping) {
		return
	}
	g.nextKeeping = now.Add(keepInterval)
	for _, channel := range g.keeping {
		g.channels[channel].isKeeping = false
		g.ready.push(channel)
	}
	g.keeping = g.keeping[:0]
}

// aheadPatience bounds how long finished data may lie below the threshold of a
// channel whose producer went slow.
const aheadPatience = 5 * time.Millisecond

// sweepAhead makes channels that have waited long for a full batch take less.
func (g *InputGate) sweepAhead(now time.Time) {
	if now.Before(g.nextSweep) {
		return
	}
	g.nextSweep = now.Add(aheadPatience)
	for _, channel := range g.ahead {
		c := &g.channels[channel]
		c.isAhead = false
		if !c.ended && now.Sub(c.armedAt) >= aheadPatience {
			c.slow()
		}
		g.ready.push(channel)
	}
	g.ahead = g.ahead[:0]
}

// park waits for a ring.
func (g *InputGate) park(ctx context.Context) error {
	if g.gone() != nil {
		return nil // its ring was taken note of
	}
	timeout := lookInterval
	if g.patience > timeout && !g.mayBeStuck() {
		timeout = g.patience
	}
	if len(g.ahead) > 0 {
		timeout = aheadPatience
	}
	if len(g.keeping) > 0 {
		timeout = min(timeout, keepInterval)
	}
	if g.daemonLost.Load() != nil {
		timeout = min(timeout, standstill.Step(standstill.Grace))
	}
	start := time.Now()
	g.idle.Start()
	err := g.bell.Park(ctx, g.rings, g.words.Parked, timeout)
	now := time.Now()
	waited := now.Sub(start)
	g.idle.Stop()
	g.wakeUps++
	g.words.WakeUps.Store(g.wakeUps)
	if err != nil {
		return fmt.Errorf("wait for input: %w", err)
	}
	quiet := g.bell.Rings() == g.rings
	g.bell.Collect(len(g.channels), func(channel int) { // also if the count was put back
		quiet = false
		g.ready.push(channel)
	})
	switch {
	case !quiet:
		g.stirred()
		g.patience = 0
	case len(g.channels) == 1 && waited >= timeout:
		g.patience = min(2*timeout, memseg.MaxParkTime)
	}
	g.lookEverywhere(now)
	if len(g.ahead) > 0 {
		g.sweepAhead(now)
	}
	g.lookAtKeeping(now)
	return nil
}

// mayBeStuck reports whether the producer of the only channel may come to wait for what
// the user keeps.
func (g *InputGate) mayBeStuck() bool {
	c := &g.channels[0]
	return !c.ended && c.view != nil && c.view.Keeps()
}

// checkDaemonLost is called when no channel is ready, and says whether one may be
// now. Without the daemon it returns an error each time that nothing has come for a
// while: then it has first looked at every channel, whatever its producer has flushed
// or rung for, so that all that is committed was read.
func (g *InputGate) checkDaemonLost() (again bool, err error) {
	lost := g.daemonLost.Load()
	switch {
	case lost == nil:
		return false, nil
	case g.lookedForLoss:
		g.stirred()
		return false, *lost
	case g.quiet.FoundNothing(time.Now(), standstill.Grace):
		g.lookedForLoss = true
		g.queueAll()
		return true, nil
	}
	return false, nil
}

// stirred says that something has come, as far as a lost daemon is concerned.
func (g *InputGate) stirred() {
	g.quiet.FoundSomething()
	g.lookedForLoss = false
}

// lookInterval is how often a gate looks at all its channels, rung or not, and how
// long it sleeps at most, since one producer might spoil the doorbell for another. A
// gate with a single channel, whose producer could only harm itself, sleeps longer
// each time while nothing comes, up to memseg.MaxParkTime: a thousand such gates that
// are idle cost next to nothing.
var lookInterval = time.Second

// lookEverywhere queues all channels once in a while: the doorbell is a hint that
// a hostile peer may spoil, by clearing the bits of others while it keeps ringing.
func (g *InputGate) lookEverywhere(now time.Time) {
	if now.Sub(g.lastLook) < lookInterval {
		return
	}
	g.lastLook = now
	g.queueAll()
}

// queueAll queues all channels that are attached.
func (g *InputGate) queueAll() {
	for i := range g.channels {
		if c := &g.channels[i]; !c.ended && c.view != nil {
			g.ready.push(i)
		}
	}
}
