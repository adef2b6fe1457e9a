package reader

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// GateControl carries the end of a gate to whoever hosts it.
type GateControl interface {
	// CloseGate is called once, when no channel is in use any more by the gate.
	CloseGate() error
}

// BufferOrEvent is what a gate delivers: a data buffer or a serialised event of
// one channel. Its receiver owns it and must release it.
type BufferOrEvent struct {
	*memseg.Buffer
	// Channel is the index of the input it came from.
	Channel int
	// MoreAvailable is false if Next would wait, or has reached the end, unless
	// something comes meanwhile. True means that it is worth a try.
	MoreAvailable bool
}

// IsEvent reports whether this is an event; see Event.
func (b BufferOrEvent) IsEvent() bool { return b.DataType().IsEvent() }

// Event decodes the event, or returns shuffle.ErrProtocol.
func (b BufferOrEvent) Event() (shuffle.Event, error) {
	return shuffle.DecodeEvent(b.Bytes(), b.DataType())
}

// An InputGate reads the subpartitions of many partitions as one stream of
// buffers and events, fairly: one buffer a turn from each channel that has some.
// A channel without news costs nothing: it is queued when its producer rings the
// gate's doorbell. The rules are those of Flink's SingleInputGate.
//
// One goroutine at a time calls Next, TryNext or ranges over Records. The
// attaching and failing of channels, and Close, may come from others. After
// Close every call returns shuffle.ErrClosed; buffers that the user retained
// stay readable until they are released.
type InputGate struct {
	region  *memseg.Region
	layout  memseg.GateLayout
	words   memseg.GateWords
	bell    *memseg.Doorbell
	control GateControl

	// The reading goroutine's own.
	channels  []inputChannel
	ready     readyQueue
	open      int    // channels that have not ended
	rings     uint32 // doorbell as of the last Collect
	ahead     []int  // channels that are armed ahead of their position
	nextSweep time.Time
	lastLook  time.Time // at all channels
	polls     uint
	patience  time.Duration // how long the next sleep may be, if more than lookInterval
	wakeUps   uint64
	idle      *memseg.Stopwatch
	unread    *unreadRecords // what a loop over Records left
	spare     *memseg.Buffer // to deliver into; nil once it is handed out

	reading sync.Mutex // held by whoever reads, and by Close to wait for it

	mailbox sync.Mutex // guards what others leave for the reading goroutine
	mail    []func()
	hasMail atomic.Bool
	closed  bool

	closing    atomic.Bool
	daemonLost atomic.Pointer[error]
	severed    atomic.Pointer[error]
}

// NewInputGate returns a gate in region, mapped for writing, whose layout was
// checked against it. doorbell is the gate's, with a bit for each channel.
// Channels deliver nothing until AttachChannel.
func NewInputGate(region *memseg.Region, l memseg.GateLayout, doorbell *memseg.Region, control GateControl) (*InputGate, error) {
	bell, err := memseg.NewDoorbell(doorbell, l.Channels)
	if err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	words := memseg.NewGateWords(region)
	return &InputGate{
		region: region, layout: l, words: words, bell: bell, control: control, idle: memseg.NewStopwatch(words.IdleNs),
		channels: make([]inputChannel, l.Channels), ready: newReadyQueue(l.Channels), open: l.Channels,
	}, nil
}

// NumChannels returns the number of inputs.
func (g *InputGate) NumChannels() int { return len(g.channels) }

// ChannelWords returns the shared words of a channel, for its view.
func (g *InputGate) ChannelWords(channel int) memseg.ChannelWords {
	return memseg.NewChannelWords(g.region, &g.layout, channel)
}

// AttachChannel gives a channel its subpartition. If the channel has failed or
// the gate was closed, the view is closed at once.
func (g *InputGate) AttachChannel(channel int, view *shuffle.SubpartitionView) {
	attached := g.leaveMail(func() {
		c := &g.channels[channel]
		if c.ended { // it has failed before
			view.Close()
			return
		}
		c.view = view
		g.ready.push(channel)
	})
	if !attached {
		view.Close()
	}
}

// FailChannel says that a channel will get no data beyond what its producer has
// committed: after that, Next returns err.
func (g *InputGate) FailChannel(channel int, err error) {
	g.leaveMail(func() {
		c := &g.channels[channel]
		if c.failure == nil {
			c.failure = err
		}
		g.ready.push(channel)
	})
}

// SetDaemonLost says that nobody watches the producers any more. Channels that
// are not attached fail with err. The others go on; but a wait that finds
// nothing new for a while returns err, since a producer may have died unnoticed.
func (g *InputGate) SetDaemonLost(err error) {
	g.daemonLost.CompareAndSwap(nil, &err)
	g.leaveMail(func() {
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
	g.severed.Store(&err)
	g.leaveMail(func() {})
}

// leaveMail has f run by the reading goroutine, and wakes it. It reports false
// once the gate is closed.
func (g *InputGate) leaveMail(f func()) bool {
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

// Next returns the next buffer or event, and waits for one until ctx ends. It
// returns io.EOF once every channel has ended. The error of a channel is
// returned once, after everything that its producer had committed; the other
// channels can be read on.
func (g *InputGate) Next(ctx context.Context) (BufferOrEvent, error) {
	return g.next(ctx, nil, true)
}

// TryNext is Next without waiting: ok is false when nothing can be read now.
func (g *InputGate) TryNext() (b BufferOrEvent, ok bool, err error) {
	b, err = g.next(context.Background(), nil, false)
	return b, err == nil && b.Buffer != nil, err
}

// ResumeConsumption lets a channel go on after a barrier.
func (g *InputGate) ResumeConsumption(channel int) error {
	g.reading.Lock()
	defer g.reading.Unlock()
	if g.closing.Load() {
		return fmt.Errorf("input gate: %w", shuffle.ErrClosed)
	}
	if err := g.severed.Load(); err != nil {
		return *err
	}
	if channel < 0 || channel >= len(g.channels) {
		return fmt.Errorf("resume channel %d of %d: %w", channel, len(g.channels), shuffle.ErrInvalidArgument)
	}
	c := &g.channels[channel]
	if c.ended || c.view == nil {
		return fmt.Errorf("resume channel %d, which has ended: %w", channel, shuffle.ErrInvalidArgument)
	}
	if _, err := c.view.ResumeConsumption(); err != nil {
		return fmt.Errorf("channel %d: %w", channel, err)
	}
	g.ready.push(channel)
	return nil
}

// next delivers into b, or into a buffer of its own if b is nil.
func (g *InputGate) next(ctx context.Context, b *memseg.Buffer, wait bool) (_ BufferOrEvent, err error) {
	g.reading.Lock()
	defer g.reading.Unlock()
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "read input gate", &err)
	if b == nil {
		if g.spare == nil {
			g.spare = &memseg.Buffer{}
		}
		b = g.spare
	}
	for {
		if g.closing.Load() { // the memory may be gone
			return BufferOrEvent{}, fmt.Errorf("input gate: %w", shuffle.ErrClosed)
		}
		if err := g.severed.Load(); err != nil {
			return BufferOrEvent{}, *err
		}
		g.lookForNews()
		channel, ok := g.ready.pop()
		if !ok {
			if g.open == 0 {
				return BufferOrEvent{}, io.EOF
			}
			if !wait {
				return BufferOrEvent{}, ctx.Err()
			}
			if err := g.park(ctx); err != nil {
				return BufferOrEvent{}, err
			}
			continue
		}
		result, err := g.poll(channel, b)
		if result.Buffer == g.spare {
			g.spare = nil // it is handed out
		}
		if err != nil || result.Buffer != nil {
			return result, err
		}
	}
}

// lookForNews queues channels that others gave news of.
func (g *InputGate) lookForNews() {
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

// poll reads one element of a channel. A result without a buffer means that the
// channel has none now.
func (g *InputGate) poll(channel int, b *memseg.Buffer) (BufferOrEvent, error) {
	c := &g.channels[channel]
	if c.ended {
		return BufferOrEvent{}, nil
	}
	if c.view == nil {
		return BufferOrEvent{}, g.endIfFailed(channel)
	}
	if c.failure == nil && !c.view.IsAvailableBeyond(c.leave()) {
		g.arm(channel)
		return BufferOrEvent{}, nil
	}
	ok, err := c.view.Take(b)
	if errors.Is(err, shuffle.ErrTooManyBuffersHeld) {
		g.ready.push(channel)
		return BufferOrEvent{}, fmt.Errorf("channel %d: %w", channel, err)
	}
	if err != nil {
		g.end(channel)
		return BufferOrEvent{}, fmt.Errorf("channel %d: %w", channel, err)
	}
	if !ok {
		if err := g.endIfFailed(channel); err != nil {
			return BufferOrEvent{}, err
		}
		g.arm(channel)
		return BufferOrEvent{}, nil
	}
	switch {
	case c.view.Ended():
		g.end(channel)
	case c.view.HasPriority():
		g.ready.pushFirst(channel)
	default:
		g.ready.push(channel) // it arms when its turn finds nothing
	}
	return BufferOrEvent{Buffer: b, Channel: channel, MoreAvailable: g.ready.len() > 0 && g.open > 0}, nil
}

// arm leaves a channel until its producer rings. If something came meanwhile, it
// is queued again.
func (g *InputGate) arm(channel int) {
	c := &g.channels[channel]
	c.adapt(time.Now())
	if !c.view.Arm(c.threshold) {
		g.ready.push(channel)
		return
	}
	if c.threshold > 0 && !c.isAhead {
		c.isAhead = true
		g.ahead = append(g.ahead, channel)
	}
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

// endIfFailed ends a channel that has a failure and nothing left to read.
func (g *InputGate) endIfFailed(channel int) error {
	err := g.channels[channel].failure
	if err == nil {
		return nil
	}
	g.end(channel)
	return fmt.Errorf("channel %d: %w", channel, err)
}

// end takes a channel out of the gate.
func (g *InputGate) end(channel int) {
	c := &g.channels[channel]
	c.ended = true
	g.open--
	g.ready.remove(channel)
	if c.view != nil {
		c.view.Close()
	}
}

// daemonLostGrace is how long a wait may find nothing once nobody watches the
// producers.
const daemonLostGrace = 500 * time.Millisecond

// park waits for a ring.
func (g *InputGate) park(ctx context.Context) error {
	if g.closing.Load() {
		return nil // its ring was taken note of
	}
	timeout := max(g.patience, lookInterval)
	if len(g.ahead) > 0 {
		timeout = aheadPatience
	}
	lost := g.daemonLost.Load()
	if lost != nil {
		timeout = min(timeout, daemonLostGrace)
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
	if quiet && lost != nil && waited >= daemonLostGrace {
		return *lost
	}
	switch {
	case !quiet:
		g.patience = 0
	case len(g.channels) == 1 && waited >= timeout:
		g.patience = min(2*timeout, memseg.MaxParkTime)
	}
	g.lookEverywhere(now)
	if len(g.ahead) > 0 {
		g.sweepAhead(now)
	}
	return nil
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
	for i := range g.channels {
		if c := &g.channels[i]; !c.ended && c.view != nil {
			g.ready.push(i)
		}
	}
}

// Close ends all channels: their producers see a lost consumer, unless the
// channel had ended. A call that is waiting returns shuffle.ErrClosed. A second
// Close returns it too.
func (g *InputGate) Close() error {
	if g.closing.Swap(true) {
		return fmt.Errorf("input gate: %w", shuffle.ErrClosed)
	}
	g.mailbox.Lock()
	g.bell.Wake()
	g.mailbox.Unlock()
	g.reading.Lock()
	defer g.reading.Unlock()
	g.mailbox.Lock()
	g.closed = true
	g.mailbox.Unlock()
	g.readMail() // views that were attached and not seen yet
	for i := range g.channels {
		if !g.channels[i].ended {
			g.end(i)
		}
	}
	return g.control.CloseGate()
}
