package gate

import (
	"context"
	"fmt"

	"shuffled/internal/ctxerr"
	"shuffled/shuffle"
)

// IsAvailable implements shuffle.InputGate.
func (g *InputGate) IsAvailable() bool {
	if g.check(context.Background()) != nil {
		return false
	}
	found, err := g.next(context.Background(), nil, byLooking)
	return err == nil && found.MoreAvailable
}

// WaitAvailable implements shuffle.InputGate.
func (g *InputGate) WaitAvailable(ctx context.Context) error {
	if err := g.check(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return fmt.Errorf("read input gate: %w", ctxerr.Of(ctx))
	}
	_, err := g.next(ctx, nil, byWaiting)
	return err
}

// available is what a look that takes nothing comes to if there is something.
var available = shuffle.BufferOrEvent{MoreAvailable: true}

// hasUnread reports whether records were read and not delivered.
func (g *InputGate) hasUnread() bool {
	return len(g.unread.bytes) > 0 || g.progress != nil && (g.progress.at.left > 0 || g.progress.beyond > 0)
}

// look reports whether a channel has something to read or to tell, and leaves it to be
// read first; otherwise the channel is armed. Once the daemon is lost and nothing comes,
// whoever reads looks at all channels, and is told if there is nothing.
func (g *InputGate) look(channel int) bool {
	c := &g.channels[channel]
	switch {
	case c.ended, c.view == nil && c.failure == nil:
		return false
	case c.failure != nil, g.lookedForLoss, c.view.IsAvailableBeyond(c.leave()):
		g.ready.pushFirst(channel)
		return true
	}
	return g.arm(channel) != nil // the error comes again
}
