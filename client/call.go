package client

import (
	"context"
	"errors"
	"fmt"

	"shuffled/internal/ctxerr"
	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// A reply is the answer to a call. What came beside it is the caller's.
type reply struct {
	*arrival
	err error
}

// A call waits for its answer, or, after its caller has gone, to undo what it
// has caused.
type call struct {
	answer    chan reply // of capacity 1
	outcome   *outcome
	abandoned bool // guarded by Client.mu
}

// An outcome is what to do about the answer to a call beside giving it to the
// caller. It runs on the receiving goroutine, before anything that comes later
// is looked at, and must not block.
type outcome struct {
	// succeeded is called with an answer that is no error.
	succeeded func(*controlpb.ServerMessage)
	// undo is called after it if the caller has gone meanwhile.
	undo func(*controlpb.ServerMessage)
	// left is called, if set, on the goroutine of a caller that goes before the answer.
	left func(id uint64)
	// settled is called last, whatever the answer, also without one.
	settled func()
}

func (p *call) settled() {
	if p.outcome != nil && p.outcome.settled != nil {
		p.outcome.settled()
	}
}

// call sends a request and waits for its answer. An answer that is an error
// comes as one. o may be nil.
func (c *Client) call(ctx context.Context, msg *controlpb.ClientMessage, o *outcome) (reply, error) {
	p := &call{answer: make(chan reply, 1), outcome: o}
	if err := c.checkCall(ctx); err != nil {
		p.settled()
		return reply{}, err
	}
	if err := ctxerr.Of(ctx); err != nil {
		p.settled()
		return reply{}, err
	}
	id, err := c.start(p, msg)
	if err != nil {
		p.settled()
		return reply{}, err
	}
	select {
	case r := <-p.answer:
		return r, r.err
	case <-ctx.Done():
	}
	if c.abandon(id, p) {
		if o != nil && o.left != nil {
			o.left(id)
		}
		return reply{}, ctxerr.Of(ctx)
	}
	r := <-p.answer // it came at the same moment
	return r, r.err
}

// checkCall refuses a client that was not made, and no context.
func (c *Client) checkCall(ctx context.Context) error {
	if err := c.check(); err != nil {
		return err
	}
	if ctx == nil {
		return fmt.Errorf("call the daemon without a context: %w", shuffle.ErrInvalidArgument)
	}
	return nil
}

// during says what was being done when an error came up, unless the daemon's own
// text says so already.
func during(action string, err error) error {
	if _, ok := err.(*ipc.RemoteError); ok {
		return err
	}
	return fmt.Errorf("%s: %w", action, err)
}

// start registers a call and sends its request.
func (c *Client) start(p *call, msg *controlpb.ClientMessage) (id uint64, err error) {
	c.mu.Lock()
	if err := c.unusable(); err != nil {
		c.mu.Unlock()
		return 0, err
	}
	c.nextID++
	id = c.nextID
	c.calls[id] = p
	c.mu.Unlock()

	msg.RequestId = id
	err = c.outbox.Post(msg)
	if err == nil || !errors.Is(err, shuffle.ErrInvalidArgument) {
		return id, nil // without a connection, the receiver answers
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, id)
	return 0, err
}

// unusable returns why nothing can be asked of the daemon, or nil. The lock is
// held.
func (c *Client) unusable() error {
	if c.closed {
		return errClientClosed
	}
	return c.lost
}

// errClientClosed is what calls return after Close, whatever came before it.
var errClientClosed = fmt.Errorf("client: %w", shuffle.ErrClosed)

// abandon leaves a call to undo what it causes. It reports false if the answer
// has been taken already.
func (c *Client) abandon(id uint64, p *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[id] != p {
		return false
	}
	p.abandoned = true
	return true
}

// send sends a request whose answer nobody waits for.
func (c *Client) send(msg *controlpb.ClientMessage) {
	_, _ = c.start(&call{answer: make(chan reply, 1), abandoned: true}, msg)
}

// answer gives an answer to its call.
func (c *Client) answer(a *arrival) {
	msg := a.msg
	c.mu.Lock()
	p := c.calls[msg.GetRequestId()]
	delete(c.calls, msg.GetRequestId())
	abandoned := p != nil && p.abandoned
	c.mu.Unlock()
	if p == nil {
		c.log.Warn("the daemon answered a request that is not open", "request", msg.GetRequestId())
		a.drop()
		return
	}
	defer p.settled()
	if err := ipc.DecodeError(msg.GetError()); err != nil {
		a.drop()
		p.answer <- reply{err: err}
		return
	}
	if p.outcome != nil && p.outcome.succeeded != nil {
		p.outcome.succeeded(msg)
	}
	if !abandoned {
		p.answer <- reply{arrival: a}
		return
	}
	a.drop()
	if p.outcome != nil && p.outcome.undo != nil {
		p.outcome.undo(msg)
	}
}
