package ipc

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"google.golang.org/protobuf/proto"

	"shuffled/internal/ctxerr"
	"shuffled/shuffle"
)

// An Outbox sends messages on a Conn from a bounded queue, so that a peer that
// does not read cannot hold up whoever has something to tell it. A peer that
// lets the queue fill up loses its connection.
//
// One goroutine, which the first message starts and Close and Shutdown wait for, does
// the sending. It takes as long as the peer likes: a stopped peer is not a dead one as
// long as the queue has room. Messages leave in the order in which they were posted. All
// methods may be called from any number of goroutines.
//
// The first of these ends an Outbox: a full queue, an error of the socket,
// Close, Shutdown. Then the messages that were not sent are dropped, their
// descriptors closed and the Conn closed too, so that the session's Receive
// returns; Err has the reason. Only when the peer has ended does the Conn stay
// open, since Receive still finds there what the peer had sent; call Close after
// it.
type Outbox struct {
	conn   *Conn
	send   func(packet []byte, fds []int) error // conn.sendEncoded but in tests
	limit  int
	flight Flight          // may be nil
	putOff func(err error) // may be nil
	ended  chan struct{}   // closed when err is set
	done   chan struct{}   // closed when the sending goroutine has ended

	mu       sync.Mutex
	started  bool      // the sending goroutine, or there will be none
	changed  sync.Cond // queue, draining or err
	queue    []parcel
	bytes    int  // of the packets in the queue
	unique   int  // parcels of that kind that are not sent
	hurried  bool // nobody is to wait for the peer any more
	draining bool // no more posts; the goroutine ends when the queue is empty
	err      error
}

// maxOutboxBytes bounds the encoded messages in a queue, which could otherwise
// each be of MaxMessageSize.
const maxOutboxBytes = 4 << 20

// errOutboxClosed is the reason of an Outbox that was closed.
var errOutboxClosed = fmt.Errorf("outbox %w", shuffle.ErrClosed)

// A parcel is an encoded message, or a function that makes one.
type parcel struct {
	name   string
	packet []byte
	fds    FDs
	build  func() (proto.Message, FDs, error)
	// most is what the message that build makes may take at most: room for it is
	// there before it is built.
	most Load
	// unique says that an object is made for the peer and not sent: no other is to be
	// made before.
	unique bool
}

// NewOutbox starts an Outbox whose queue holds up to limit messages, at least 1,
// and 4 MiB. The Conn is closed by it; until then anyone may receive from it.
// The caller must call Close or Shutdown.
func NewOutbox(conn *Conn, limit int) *Outbox {
	return NewBoundedOutbox(conn, limit, nil, nil)
}

// A Flight bounds what is under way to a peer. Its methods may be called from any number
// of goroutines.
type Flight interface {
	// Take waits for room for more, and reports false if ended was closed before.
	Take(more Load, ended <-chan struct{}) bool
	// GiveBack takes off what was not sent after all.
	GiveBack(less Load)
}

// NewBoundedOutbox is NewOutbox with a bound on what is under way, asked before a message
// is made, and with a function that hears of each attempt that the kernel puts off. Either
// may be nil.
func NewBoundedOutbox(conn *Conn, limit int, flight Flight, putOff func(err error)) *Outbox {
	o := &Outbox{
		conn: conn, send: conn.sendEncoded, limit: max(limit, 1), flight: flight, putOff: putOff,
		ended: make(chan struct{}), done: make(chan struct{}),
	}
	o.changed.L = &o.mu
	return o
}

// start makes sure that o.done will be closed, by a goroutine that sends if there is
// something to send. The lock is held.
func (o *Outbox) start(send bool) {
	switch {
	case o.started:
	case send:
		go o.run()
	default:
		close(o.done)
	}
	o.started = true
}

// Ended is closed when the Outbox has ended: Err has the reason.
func (o *Outbox) Ended() <-chan struct{} { return o.ended }

// IsUnused reports whether nothing was ever posted.
func (o *Outbox) IsUnused() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.started
}

// Post queues a message and never blocks. The descriptors are the Outbox's from
// now on, also when Post returns an error: they are closed when they were sent or
// dropped. The message is encoded before Post returns and may be changed after.
//
// A message that Send would refuse is refused with the same error, which wraps
// shuffle.ErrInvalidArgument, and changes nothing. A full queue ends the Outbox
// with an error that wraps shuffle.ErrQuotaExceeded. After the end Post returns
// the reason, and after Close or Shutdown shuffle.ErrClosed.
func (o *Outbox) Post(msg proto.Message, fds ...int) error {
	name := MessageName(msg)
	err := checkFDCount(len(fds))
	var packet []byte
	if err == nil {
		packet, err = encodeMessage(nil, msg)
	}
	if err != nil {
		FDs(fds).Close()
		return fmt.Errorf("post %s: %w", name, err)
	}
	return o.post(parcel{name: name, packet: packet, fds: fds})
}

// PostFunc queues a message that is made when its turn to be sent has come, so
// that a long queue holds no descriptors. The function is called by the sending
// goroutine, or never if the Outbox ends before; it must not block and must not
// call Close or Shutdown. The descriptors it returns are the Outbox's. A nil
// message sends nothing; an error, or a message that Send would refuse, ends the
// Outbox with it. Errors are those of Post otherwise.
func (o *Outbox) PostFunc(build func() (proto.Message, FDs, error)) error {
	return o.PostMost(build, Load{Bytes: SmallMessage, Descriptors: MessageDescriptors}, false)
}

// PostMost is PostFunc for a message that takes at most so much; unique says that an object
// is made for it, and that no other is to be made before this one is sent.
func (o *Outbox) PostMost(build func() (proto.Message, FDs, error), most Load, unique bool) error {
	return o.post(parcel{name: "message", build: build, most: most, unique: unique})
}

// What may wait in an Outbox whose peer still gets its requests handled.
const (
	quietMessages = 16
	quietBytes    = 4 << 10
)

// WaitForQuiet waits until not more than a little is unsent, or until the Outbox
// has ended. A session that does so before it takes the next request lets a
// client that asks and does not read hold up itself.
func (o *Outbox) WaitForQuiet() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.err == nil && !o.hurried && (len(o.queue) > quietMessages || o.bytes > quietBytes || o.unique > 0) {
		o.changed.Wait()
	}
}

// Hurry ends WaitForQuiet for good.
func (o *Outbox) Hurry() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hurried = true
	o.changed.Broadcast()
}

// Queued returns how many messages wait, and the bytes of those that are made.
func (o *Outbox) Queued() (messages, bytes int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.queue), o.bytes
}

// post queues a parcel or drops it.
func (o *Outbox) post(p parcel) error {
	o.mu.Lock()
	err, full := o.err, false
	switch {
	case err != nil:
	case o.draining:
		err = errOutboxClosed
	case len(o.queue) >= o.limit:
		err, full = fmt.Errorf("outbox is full, the peer does not read: got message %d, limit %d: %w",
			len(o.queue)+1, o.limit, shuffle.ErrQuotaExceeded), true
	case o.bytes+len(p.packet) > maxOutboxBytes:
		err, full = fmt.Errorf("outbox is full, the peer does not read: got %d bytes, limit %d: %w",
			o.bytes+len(p.packet), maxOutboxBytes, shuffle.ErrQuotaExceeded), true
	default:
		o.start(true)
		o.queue = append(o.queue, p)
		o.bytes += len(p.packet)
		if p.unique {
			o.unique++
		}
		o.changed.Broadcast()
	}
	o.mu.Unlock()
	if full {
		o.end(err)
	}
	if err != nil {
		p.fds.Close()
		return fmt.Errorf("post %s: %w", p.name, err)
	}
	return nil
}

// Err returns why the Outbox has ended, or nil as long as it runs. For any
// number of goroutines, also after Close.
func (o *Outbox) Err() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// Close ends the Outbox at once, drops what was not sent, closes the Conn and
// waits for the sending goroutine. It may be called again.
func (o *Outbox) Close() {
	o.end(errOutboxClosed)
	<-o.done
	_ = o.conn.Close()
}

// Shutdown takes no more messages, waits until those posted before are sent, and
// closes. If ctx ends first, or the Outbox does, it drops the rest and returns
// the reason.
func (o *Outbox) Shutdown(ctx context.Context) error {
	o.mu.Lock()
	o.start(false)
	o.draining = true
	o.changed.Broadcast()
	o.mu.Unlock()
	select {
	case <-o.done:
	case <-ctx.Done():
		o.end(fmt.Errorf("outbox has unsent messages, the peer does not read: %w", ctxerr.Of(ctx)))
		<-o.done
	}
	err := o.Err()
	o.Close()
	return err
}

// run sends what is queued, until the Outbox ends.
func (o *Outbox) run() {
	defer close(o.done)
	for {
		p, ok := o.next()
		if !ok {
			return
		}
		if err := o.deliverSafely(p); err != nil {
			o.end(err)
		}
		if p.unique {
			o.mu.Lock()
			o.unique--
			o.changed.Broadcast()
			o.mu.Unlock()
		}
	}
}

// next waits for the next parcel. It returns false when the Outbox has ended.
func (o *Outbox) next() (parcel, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.queue) == 0 && o.err == nil && !o.draining {
		o.changed.Wait()
	}
	if len(o.queue) == 0 {
		return parcel{}, false
	}
	p := o.queue[0]
	o.queue[0] = parcel{} // what it holds is not the queue's any more
	if o.queue = o.queue[1:]; len(o.queue) == 0 {
		o.queue = nil // with the memory that a long queue has needed
	}
	o.bytes -= len(p.packet)
	o.changed.Broadcast()
	return p, true
}

// deliverSafely ends the Outbox alone if a message cannot be made.
func (o *Outbox) deliverSafely(p parcel) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &MessagePanic{r, debug.Stack()}
		}
	}()
	return o.deliver(p)
}

// A MessagePanic is a panic of a function that was to make a message. The peer is not
// told of the value.
type MessagePanic struct {
	Value any
	Stack []byte
}

func (e *MessagePanic) Error() string { return "a message could not be made" }

// deliver sends one parcel and closes its descriptors. What a message costs is
// booked before it is made.
func (o *Outbox) deliver(p parcel) error {
	booked := p.most
	if p.build == nil {
		booked = Load{int64(len(p.packet)) + PacketCost, int64(len(p.fds))}
	}
	if !o.book(booked) {
		p.fds.Close()
		return nil // the Outbox has ended
	}
	if p.build != nil {
		if err := o.conn.waitForRoom(); err != nil {
			return fmt.Errorf("send %s: %w", p.name, err)
		}
		msg, fds, err := p.build()
		defer fds.Close()
		if err != nil {
			return err
		}
		if msg == nil {
			o.unbook(booked)
			return nil
		}
		p.name, p.fds = MessageName(msg), fds
		if err = checkFDCount(len(fds)); err == nil {
			p.packet, err = encodeMessage(nil, msg)
		}
		if err != nil {
			return fmt.Errorf("send %s: %w", p.name, err)
		}
		o.unbook(Load{booked.Bytes - int64(len(p.packet)) - PacketCost, booked.Descriptors - int64(len(fds))})
	}
	defer p.fds.Close()
	if err := o.sendPatiently(p); err != nil {
		return fmt.Errorf("send %s: %w", p.name, err)
	}
	return nil
}

func (o *Outbox) book(more Load) bool { return o.flight == nil || o.flight.Take(more, o.ended) }

func (o *Outbox) unbook(less Load) {
	if o.flight != nil {
		o.flight.GiveBack(Load{max(less.Bytes, 0), max(less.Descriptors, 0)})
	}
}

// end records why the Outbox has ended, unless it had already, drops the queue
// and closes the Conn.
func (o *Outbox) end(reason error) {
	o.mu.Lock()
	o.start(false)
	if o.err == nil {
		o.err = reason
		close(o.ended)
	}
	dropped := o.queue
	o.queue, o.bytes = nil, 0
	o.changed.Broadcast()
	o.mu.Unlock()
	for _, p := range dropped {
		p.fds.Close()
	}
	if !errors.Is(reason, errPeerEnded) {
		_ = o.conn.Close()
	}
}
