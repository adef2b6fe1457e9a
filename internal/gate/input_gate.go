package gate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"shuffled/internal/absent"
	"shuffled/internal/ctxerr"
	"shuffled/internal/standstill"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// GateControl carries the end of a gate to whoever hosts it.
type GateControl interface {
	// CloseGate is called once, when no channel is in use any more by the gate.
	CloseGate() error
}

// An InputGate is a shuffle.InputGate, with what its host has of it. A channel is
// queued when its producer rings the gate's doorbell.
//
// The attaching and failing of channels, and what else its host tells it, may come from
// any goroutine.
type InputGate struct {
	region  *memseg.Region
	layout  memseg.GateLayout
	spec    shuffle.GateSpec
	words   memseg.GateWords
	bell    *memseg.Doorbell
	control GateControl

	// The reading goroutine's own.
	channels    []inputChannel
	ready       readyQueue
	open        int    // channels that have not ended
	rings       uint32 // doorbell as of the last Collect
	ahead       []int  // channels that are armed ahead of their position
	nextSweep   time.Time
	lastLook    time.Time // at all channels
	polls       uint
	polled      int           // the channel that is looked at, or -1
	patience    time.Duration // how long the next sleep may be, if more than lookInterval
	wakeUps     uint64
	idle        *memseg.Stopwatch
	keeping     []int // channels whose user keeps much, see arm
	nextKeeping time.Time
	// Without the daemon: for how long nothing has come, and whether every channel is
	// read to what is committed since then, see checkDaemonLost.
	quiet         standstill.Standstill
	lookedForLoss bool
	unread        unreadRecords         // what a loop over Records left
	progress      *progress             // of the loop that runs
	spare         *memseg.Buffer        // to deliver into; nil once it is handed out
	scratch       []byte                // for a loop over Records that copies
	loss          *shuffle.ChannelError // the first one

	reading sync.Mutex  // held by whoever reads, and by Close to wait for it
	looping atomic.Bool // a loop over Records runs, or nobody may read any more

	mailbox sync.Mutex // guards what others leave for the reading goroutine
	mail    []func()
	hasMail atomic.Bool
	closed  bool

	daemonLost atomic.Pointer[error]
	over       atomic.Pointer[error] // why no call reads any more: errClosed, or what Sever was given
}

var _ shuffle.InputGate = (*InputGate)(nil)

// NewInputGate returns a gate in region, mapped for writing, whose layout was
// checked against it. doorbell is the gate's, with a bit for each channel. spec has
// the layout's number of inputs; what else it says is up to control. Channels
// deliver nothing until AttachChannel.
func NewInputGate(region *memseg.Region, l memseg.GateLayout, doorbell *memseg.Region, spec shuffle.GateSpec,
	control GateControl) (*InputGate, error) {
	if region == nil || doorbell == nil || absent.Is(control) || len(spec.Inputs) != l.Channels {
		return nil, fmt.Errorf("open gate of %d channels with %d inputs: %w", l.Channels, len(spec.Inputs),
			shuffle.ErrInvalidArgument)
	}
	bell, err := memseg.NewDoorbell(doorbell, l.Channels)
	if err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	words := memseg.NewGateWords(region)
	return &InputGate{
		region: region, layout: l, spec: spec.WithDefaults(), words: words, bell: bell, control: control,
		idle:     memseg.NewStopwatch(words.IdleNs),
		channels: make([]inputChannel, l.Channels), ready: newReadyQueue(l.Channels), open: l.Channels,
	}, nil
}

// NumChannels implements shuffle.InputGate.
func (g *InputGate) NumChannels() int {
	if g == nil {
		return 0
	}
	return len(g.channels)
}

// ChannelWords returns the shared words of a channel, for its view; of a channel that
// the gate does not have, none.
func (g *InputGate) ChannelWords(channel int) memseg.ChannelWords {
	if !g.hasChannel(channel) {
		return memseg.ChannelWords{}
	}
	return memseg.NewChannelWords(g.region, &g.layout, channel)
}

// Next implements shuffle.InputGate.
func (g *InputGate) Next(ctx context.Context) (shuffle.BufferOrEvent, error) {
	if err := g.check(ctx); err != nil {
		return shuffle.BufferOrEvent{}, err
	}
	return g.next(ctx, nil, byBuffer)
}

// TryNext implements shuffle.InputGate.
func (g *InputGate) TryNext() (b shuffle.BufferOrEvent, ok bool, err error) {
	if err := g.check(context.Background()); err != nil {
		return shuffle.BufferOrEvent{}, false, err
	}
	b, err = g.next(context.Background(), nil, byTrying)
	return b, err == nil && b.Buffer != nil, err
}

// check refuses a gate that was not opened and no context.
func (g *InputGate) check(ctx context.Context) error {
	if g == nil || g.bell == nil {
		return fmt.Errorf("the InputGate was not opened, client.OpenGate returns one: %w", shuffle.ErrInvalidArgument)
	}
	if ctx == nil {
		return fmt.Errorf("read a gate without a context: %w", shuffle.ErrInvalidArgument)
	}
	return nil
}

// ResumeConsumption implements shuffle.InputGate.
func (g *InputGate) ResumeConsumption(channel int) (err error) {
	if err := g.check(context.Background()); err != nil {
		return err
	}
	if err := g.enter(); err != nil {
		return err
	}
	defer g.reading.Unlock()
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), fmt.Sprintf("resume channel %d", channel), &err)
	if !g.hasChannel(channel) {
		return fmt.Errorf("resume channel %d of %d: %w", channel, len(g.channels), shuffle.ErrInvalidArgument)
	}
	c := &g.channels[channel]
	if c.ended || c.view == nil {
		state := "has ended"
		if !c.ended {
			state = "has no producer yet"
		}
		return fmt.Errorf("resume channel %d, which %s: %w", channel, state, shuffle.ErrInvalidArgument)
	}
	g.ready.push(channel) // also if it faults
	if err := c.view.ResumeConsumption(); err != nil {
		return fmt.Errorf("channel %d: %w", channel, err)
	}
	return nil
}

// enter locks reading for a caller that must be alone.
func (g *InputGate) enter() error {
	if !g.reading.TryLock() {
		return g.notAlone()
	}
	if err := g.gone(); err != nil {
		g.reading.Unlock()
		return err
	}
	return nil
}

// notAlone is why a caller that found another one cannot read.
func (g *InputGate) notAlone() error {
	if err := g.gone(); err != nil {
		return err
	}
	return fmt.Errorf("input gate: another goroutine is reading it: %w", shuffle.ErrConcurrentUse)
}

// gone returns an error once the gate was closed, or given up by its host.
func (g *InputGate) gone() error {
	if err := g.over.Load(); err != nil {
		return *err
	}
	return nil
}

// errClosed is what every call of a closed gate returns.
var errClosed = fmt.Errorf("input gate: %w", shuffle.ErrClosed)

func (g *InputGate) isClosed() bool { return g.over.Load() == &errClosed }

// How somebody reads a gate.
type readingMode int

const (
	byBuffer  readingMode = iota // Next
	byTrying                     // TryNext
	byRecord                     // a loop over Records
	byElement                    // a loop over records and events
	byLooking                    // IsAvailable, which takes nothing
	byWaiting                    // WaitAvailable, which takes nothing
)

func (m readingMode) isLoop() bool { return m == byRecord || m == byElement }

func (m readingMode) isLook() bool { return m >= byLooking }

// next delivers into b, or into a buffer of its own if b is nil. A fault of a
// producer's memory is the error of the channel that was looked at. In a loop, the
// goroutine's faults are panics from here on; one by record gets no events.
func (g *InputGate) next(ctx context.Context, b *memseg.Buffer, mode readingMode) (result shuffle.BufferOrEvent,
	err error) {
	if !g.reading.TryLock() {
		return shuffle.BufferOrEvent{}, g.notAlone()
	}
	if b == nil {
		if g.spare == nil {
			g.spare = &memseg.Buffer{}
		}
		b = g.spare
	}
	g.polled = -1
	onFault, hasReturned := debug.SetPanicOnFault(true), false
	defer func() {
		if !mode.isLoop() {
			debug.SetPanicOnFault(onFault)
		}
		if hasReturned {
			g.reading.Unlock()
			return
		}
		if err = g.interrupted(recover(), b, mode); err == nil && mode.isLook() {
			result = available
		}
	}()
	result, err = g.nextElement(ctx, b, mode)
	hasReturned = true
	return result, err
}

// interrupted ends a call of next that has panicked, or whose goroutine ends, and
// returns what became of a fault.
func (g *InputGate) interrupted(panicked any, b *memseg.Buffer, mode readingMode) error {
	defer g.reading.Unlock()
	if panicked == nil {
		return nil // the goroutine ends
	}
	err := memseg.FaultOf(panicked, "read input gate")
	if err == nil {
		panic(panicked)
	}
	if mode.isLook() && g.polled >= 0 {
		g.ready.push(g.polled) // whoever reads it is told
		return nil
	}
	_ = b.Release() // if it was taken already
	if g.polled >= 0 {
		err = g.fail(g.polled, err)
	}
	return err
}

func (g *InputGate) nextElement(ctx context.Context, b *memseg.Buffer, mode readingMode) (shuffle.BufferOrEvent,
	error) {
	if mode.isLook() && g.hasUnread() {
		return available, nil
	}
	if !mode.isLoop() && !mode.isLook() && g.gone() == nil {
		if err := g.checkNotInRecords(); err != nil {
			return shuffle.BufferOrEvent{}, err
		}
	}
	for {
		if err := g.gone(); err != nil { // and so may be the memory
			if mode.isLook() {
				return available, nil
			}
			return shuffle.BufferOrEvent{}, err
		}
		if ctx.Err() != nil {
			return shuffle.BufferOrEvent{}, fmt.Errorf("read input gate: %w", ctxerr.Of(ctx))
		}
		g.queueNotified()
		channel, ok := g.ready.pop()
		if !ok {
			if mode.isLook() && (g.open == 0 || g.lookedForLoss) {
				return available, nil
			}
			if g.open == 0 {
				return shuffle.BufferOrEvent{}, g.theEnd()
			}
			again, err := g.checkDaemonLost()
			if err != nil {
				return shuffle.BufferOrEvent{}, err
			}
			if again {
				continue
			}
			if mode != byTrying && mode != byLooking {
				if err := g.park(ctx); err != nil {
					return shuffle.BufferOrEvent{}, err
				}
				continue
			}
			now := time.Now()
			g.lookEverywhere(now)
			g.lookAtKeeping(now)
			if g.ready.len() == 0 {
				return shuffle.BufferOrEvent{}, nil
			}
			continue
		}
		g.polled = channel
		if mode.isLook() {
			isAvailable := g.look(channel)
			if g.polled = -1; isAvailable {
				return available, nil
			}
			continue
		}
		result, err := g.poll(channel, b, mode)
		g.polled = -1
		if result.Buffer == nil && err == nil {
			continue
		}
		if result.Buffer == g.spare {
			g.spare = nil // it is handed out
		}
		return result, err
	}
}

// theEnd is what a gate returns when all its channels have ended.
func (g *InputGate) theEnd() error {
	if g.loss == nil {
		return io.EOF
	}
	loss := *g.loss
	loss.Ended = true
	return fmt.Errorf("%w: %w", &loss, shuffle.ErrIncomplete)
}

// poll reads one element of a channel. A result without a buffer means that the
// channel has none now.
func (g *InputGate) poll(channel int, b *memseg.Buffer, mode readingMode) (shuffle.BufferOrEvent, error) {
	c := &g.channels[channel]
	if c.ended {
		return shuffle.BufferOrEvent{}, nil
	}
	if c.view == nil {
		return shuffle.BufferOrEvent{}, g.endIfFailed(channel)
	}
	if c.failure == nil && !g.lookedForLoss && !c.view.IsAvailableBeyond(c.leave()) {
		return shuffle.BufferOrEvent{}, g.arm(channel)
	}
	if !mode.isLoop() || c.byBuffers {
		if err := c.checkMode(mode); err != nil {
			g.ready.push(channel)
			return shuffle.BufferOrEvent{}, g.channelError(channel, err)
		}
	}
	ok, err := c.view.Take(b)
	if err != nil {
		if errors.Is(err, shuffle.ErrTooManyBuffersHeld) {
			g.ready.push(channel)
			return shuffle.BufferOrEvent{}, g.channelError(channel, err)
		}
		return shuffle.BufferOrEvent{}, g.failReading(channel, err)
	}
	if !ok {
		if c.view.HasMore() {
			g.ready.push(channel) // behind the others
			return shuffle.BufferOrEvent{}, nil
		}
		if err := g.endIfFailed(channel); err != nil {
			return shuffle.BufferOrEvent{}, err
		}
		return shuffle.BufferOrEvent{}, g.arm(channel)
	}
	if g.daemonLost.Load() != nil {
		g.stirred()
	}
	if b.DataType().IsEvent() {
		if b, err = g.takeEvent(channel, b, mode); err != nil {
			return shuffle.BufferOrEvent{}, err
		}
	} else {
		c.byBuffers = !mode.isLoop()
	}
	g.queueAgain(channel)
	return shuffle.BufferOrEvent{Buffer: b, Channel: channel, MoreAvailable: g.ready.len() > 0 && g.open > 0}, nil
}

// maxPriorityTurns is how many priority events of a channel come before the other
// channels have a turn: all that an honest producer can have under way.
const maxPriorityTurns = 8

// queueAgain decides when a channel that had its turn has the next one.
func (g *InputGate) queueAgain(channel int) {
	c := &g.channels[channel]
	switch {
	case c.view.Ended():
		g.end(channel, true)
	case g.ready.len() > 0 && c.view.HasPriority() && c.priorityTurns < maxPriorityTurns:
		c.priorityTurns++
		g.ready.pushFirst(channel)
	default:
		c.priorityTurns = 0
		g.ready.push(channel) // it arms when its turn finds nothing
	}
}

// takeEvent returns a copy of an event, which nobody can change any more, and gives
// its slot back. A loop by record gets none: what it means for one is done here. An
// event that cannot be read ends the channel: what it meant is lost.
func (g *InputGate) takeEvent(channel int, b *memseg.Buffer, mode readingMode) (*memseg.Buffer, error) {
	content, typ := bytes.Clone(b.Bytes()), b.DataType()
	err := g.channels[channel].checkMemory()
	_ = b.Release()
	if err != nil {
		return nil, g.failReading(channel, err)
	}
	if _, err := shuffle.DecodeEvent(content, typ); err != nil {
		return nil, g.fail(channel, err)
	}
	c := &g.channels[channel]
	if mode.isLoop() && typ == memseg.EndOfPartition && !c.record.isEmpty() {
		return nil, g.fail(channel, fmt.Errorf("the stream ends within a record: %w", shuffle.ErrCorruptRecord))
	}
	if mode == byRecord {
		if typ.IsBlockingUpstream() {
			if err := c.view.ResumeConsumption(); err != nil { // the loop passes over the barrier
				return nil, g.fail(channel, err)
			}
		}
		return nil, nil
	}
	return memseg.NewBuffer(content, typ, nil, 0), nil
}

// endIfFailed ends a channel that has a failure and nothing left to read.
func (g *InputGate) endIfFailed(channel int) error {
	err := g.channels[channel].failure
	if err == nil {
		return nil
	}
	return g.fail(channel, err)
}

// end takes a channel out of the gate, and says whether its stream was whole or was
// cut: here, by fail and by Close. The daemon and the producer are told just that.
func (g *InputGate) end(channel int, whole bool) {
	c := &g.channels[channel]
	c.ended = true
	g.open--
	g.ready.remove(channel)
	if c.view != nil {
		c.view.Close(whole)
	}
}

// Close implements shuffle.InputGate.
func (g *InputGate) Close() error {
	if err := g.check(context.Background()); err != nil {
		return err
	}
	if g.over.Swap(&errClosed) == &errClosed {
		return errClosed
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
			g.end(i, false)
		}
	}
	g.dropRecords()
	return g.control.CloseGate()
}
