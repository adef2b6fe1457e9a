package gate

import (
	"context"
	"fmt"

	"shuffled/internal/partition"
	"shuffled/shuffle"
)

// AttachChannel gives a channel its subpartition. If the channel has failed or
// the gate was closed, the view is closed at once. Nil fails the channel.
func (g *InputGate) AttachChannel(channel int, view *partition.SubpartitionView) {
	if view == nil {
		g.FailChannel(channel, nil)
		return
	}
	attached := g.hasChannel(channel) && g.post(func() {
		c := &g.channels[channel]
		if c.ended || c.view != nil { // it has failed before
			view.Close(false)
			return
		}
		c.view = view
		g.ready.push(channel)
	})
	if !attached {
		view.Close(false)
	}
}

// FailChannel says that a channel will get no data beyond what its producer has
// committed: after that, Next returns err. A channel that the gate does not have is
// ignored.
func (g *InputGate) FailChannel(channel int, err error) {
	if err == nil {
		err = fmt.Errorf("the channel failed without a reason: %w", shuffle.ErrProtocol)
	}
	if !g.hasChannel(channel) {
		return
	}
	g.post(func() {
		c := &g.channels[channel]
		if c.failure == nil {
			c.failure = err
		}
		g.ready.push(channel)
	})
}

func (g *InputGate) hasChannel(channel int) bool { return channel >= 0 && channel < g.NumChannels() }

// SetDaemonLost says that nobody watches the producers any more. Channels that
// are not attached fail with err. The others go on; but a wait that finds
// nothing new for a while returns err, since a producer may have died unnoticed.
func (g *InputGate) SetDaemonLost(err error) {
	if g.check(context.Background()) != nil {
		return
	}
	if err == nil {
		err = fmt.Errorf("input gate: %w", shuffle.ErrDaemonLost)
	}
	g.daemonLost.CompareAndSwap(nil, &err)
	g.post(func() {
		for i := range g.channels {
			if c := &g.channels[i]; c.view == nil && !c.ended && c.failure == nil {
				c.failure = err
				g.ready.push(i)
			}
		}
	})
}

// Sever makes every later call, and one that waits, return err: whoever hosts the
// gate has given it up, so that its producers may use the memory anew. The last
// reason counts.
func (g *InputGate) Sever(err error) {
	if g.check(context.Background()) != nil {
		return
	}
	if err == nil {
		err = errClosed
	}
	for {
		over := g.over.Load()
		if over == &errClosed || g.over.CompareAndSwap(over, &err) {
			break
		}
	}
	g.post(func() {})
}

// post has f run by the reading goroutine, and wakes it. It reports false
// once the gate is closed.
func (g *InputGate) post(f func()) bool {
	g.mailbox.Lock()
	defer g.mailbox.Unlock()
	if g.closed {
		return false
	}
	g.mail = append(g.mail, f)
	g.hasMail.Store(true)
	g.bell.Wake()
	return true
}

func (g *InputGate) readMail() {
	g.mailbox.Lock()
	mail := g.mail
	g.mail = nil
	g.hasMail.Store(false)
	g.mailbox.Unlock()
	for _, f := range mail {
		f()
	}
}
