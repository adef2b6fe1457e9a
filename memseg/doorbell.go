package memseg

import (
	"context"
	"fmt"
	"runtime/debug"
	"time"

	"shuffled/internal/ctxerr"
)

// A Doorbell is a shared page of hints: a futex word that counts rings, and a bit
// for each channel that may have news. Every peer of its owner may write it, so
// nothing but the moment of a wake-up depends on it: a spoilt doorbell costs an
// early or a late look, never data.
type Doorbell struct {
	futex *Word32
	bits  []*Word

	// The owner's own, see waitAwake.
	spins          int
	skips, skipped int // turns still to be left out, and how many were the last time
	shared         *sharedSleeper
}

// NewDoorbell returns the doorbell in region, which has room for numBits bits, or
// ErrLayout.
func NewDoorbell(region *Region, numBits int) (*Doorbell, error) {
	if numBits < 1 || numBits > maxLayoutChannels || int64(region.Size()) < DoorbellSize(numBits) {
		return nil, fmt.Errorf("doorbell of %d bits in %d bytes: %w", numBits, region.Size(), ErrLayout)
	}
	d := &Doorbell{futex: region.Word32(doorbellFutex)}
	for i := 0; i < numBits; i += doorbellBitsPerWord {
		d.bits = append(d.bits, region.Word(doorbellBits+i/doorbellBitsPerWord*8))
	}
	return d, nil
}

// Ring says that channel has news and wakes the owner if it sleeps. parked is a
// word that the owner alone writes. Any goroutine of any peer may call it; it
// never blocks.
func (d *Doorbell) Ring(channel int, parked *Word32) {
	d.bits[channel/doorbellBitsPerWord].or(1 << (channel % doorbellBitsPerWord))
	d.futex.add(1)
	if parked.Load() != 0 {
		futexWake(d.futex)
	}
}

// Wake makes the owner look at its channels again without naming one. The
// owner's process calls it when news came by another way.
func (d *Doorbell) Wake() {
	d.futex.add(1)
	futexWake(d.futex)
}

// Rings returns the futex word, which differs after every ring.
func (d *Doorbell) Rings() uint32 { return d.futex.Load() }

func anySet(bits []*Word) bool {
	for _, word := range bits {
		if word.Load() != 0 {
			return true
		}
	}
	return false
}

// Collect calls f for each channel whose bit is set, and clears them. Only the
// owner calls it. A bit beyond numChannels, which only a hostile peer sets, is
// passed over.
func (d *Doorbell) Collect(numChannels int, f func(channel int)) {
	for w, word := range d.bits {
		if word.Load() == 0 {
			continue
		}
		set := word.swap(0)
		for c := w * doorbellBitsPerWord; set != 0; c, set = c+1, set>>1 {
			if set&1 != 0 && c < numChannels {
				f(c)
			}
		}
	}
}

// MaxParkTime bounds every sleep. Owners of a doorbell that several peers share, one of
// which might spoil it, sleep for no more than a second at a time.
const MaxParkTime = time.Minute

// Park sleeps until the doorbell's futex word differs from rings, which the
// caller loaded before its last Collect and look for work, until a bit is set, until
// the timeout, of at most MaxParkTime, or until ctx ends, whose error it returns. It
// may return early without a reason. Whatever the doorbell says then, the caller
// collects and looks: a hostile peer might have put it back. parked is the owner's
// word that tells peers whether a wake-up call is needed. Only the owner calls Park,
// one goroutine at a time.
//
// It stays awake for a moment first, see waitAwake. Then it sleeps by futex, which
// holds an OS thread and wakes fastest. When many goroutines of the process are
// parked that way, further ones share threads, and beyond that one watcher
// goroutine, so that ten thousand idle gates do not need ten thousand threads.
func (d *Doorbell) Park(ctx context.Context, rings uint32, parked *Word32, timeout time.Duration) (err error) {
	defer RecoverFault(debug.SetPanicOnFault(true), "park on doorbell", &err)
	if ctx.Err() == nil && d.waitAwake(rings) {
		return nil
	}
	return d.park(ctx, rings, parked, max(min(timeout, MaxParkTime), 0))
}

// park is Park without the bound, which would hide a wake-up that is lost.
func (d *Doorbell) park(ctx context.Context, rings uint32, parked *Word32, timeout time.Duration) error {
	if err := ctxerr.Of(ctx); err != nil {
		return err
	}
	if ctx.Done() != nil {
		woken := make(chan struct{})
		stop := context.AfterFunc(ctx, func() { d.Wake(); close(woken) })
		defer func() {
			if !stop() {
				<-woken // it touches the page, which may be unmapped after us
			}
		}()
	}
	select {
	case threadTokens <- struct{}{}:
		if err := d.sleepInThread(rings, parked, timeout); err != nil {
			return err
		}
	default:
		d.sleepShared(rings, parked, timeout)
	}
	return ctxerr.Of(ctx)
}

// sleepInThread sleeps by a futex call, for which the caller has a token.
func (d *Doorbell) sleepInThread(rings uint32, parked *Word32, timeout time.Duration) error {
	defer func() { <-threadTokens }()
	parked.Store(1)
	defer parked.Store(0)
	if anySet(d.bits) {
		return nil
	}
	return futexWait(d.futex, rings, timeout)
}

// sleepShared sleeps without a thread of its own.
func (d *Doorbell) sleepShared(rings uint32, parked *Word32, timeout time.Duration) {
	if d.shared == nil {
		d.shared = newSharedSleeper(d.futex, d.bits)
	}
	d.shared.sleep(rings, parked, timeout)
}
