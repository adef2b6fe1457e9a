package partition

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"shuffled/internal/cpucache"
	"shuffled/internal/invariants"
	"shuffled/internal/standstill"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// IsAvailable implements shuffle.ResultPartition.
func (p *ResultPartition) IsAvailable() bool {
	if p.check() != nil {
		return false
	}
	if p.pool.Available() && !p.someAtQuota() {
		return true
	}
	p.Reclaim()
	return p.pool.Available() && !p.someAtQuota()
}

// WaitAvailable implements shuffle.ResultPartition.
func (p *ResultPartition) WaitAvailable(ctx context.Context) (err error) {
	if err := p.beginWrite(); err != nil {
		return err
	}
	defer p.endWrite(&err)
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "wait for a segment", &err)
	if err := p.checkContext(ctx); err != nil {
		return err
	}
	if err := p.checkWrite(memseg.LengthPrefix); err != nil {
		return err
	}
	lack := shortage{of: segmentShortage, subpartition: everySubpartition}
	return p.whenRoom(ctx, &lack, func() error {
		lack.of, lack.subpartition = segmentShortage, everySubpartition
		if i := slices.IndexFunc(p.subpartitions, (*ResultSubpartition).isAtQuota); i >= 0 {
			lack.of, lack.subpartition = quotaShortage, i
			p.finishShared() // an open buffer cannot be released
			p.finishOwn(p.subpartitions[i])
			return memseg.ErrQueueFull
		}
		if !p.pool.Available() {
			return memseg.ErrQueueFull
		}
		return nil
	})
}

// releaseSegment is called once for each queue that held the segment.
func (p *ResultPartition) releaseSegment(segment int) {
	if h := &p.holders[segment]; h.Load() == 0 || h.Add(-1) == 0 {
		if invariants.Enabled {
			invariants.Poison(p.memory.Bytes(segment))
		}
		p.pool.Recycle(segment, int(p.charged[segment]))
	}
}

// hold notes who is charged for a segment and how many queues will release it.
func (p *ResultPartition) hold(segment, channel, queues int) {
	p.charged[segment] = int32(channel)
	shared := int32(queues)
	if queues == 1 {
		shared = 0 // the one that releases it need not count
	}
	if h := &p.holders[segment]; h.Load() != shared {
		h.Store(shared)
	}
}

// whenRoom calls try until it returns something else than memseg.ErrQueueFull,
// and waits between calls until consumers have released something or ctx ends; lack
// says what try did not find. The time spent waiting is back-pressure. A writer that
// waits for a segment lets its consumer go ahead.
func (p *ResultPartition) whenRoom(ctx context.Context, lack *shortage, try func() error) error {
	err := try()
	if err == nil || !errors.Is(err, memseg.ErrQueueFull) {
		return err
	}
	if ctx == nil {
		return p.checkContext(ctx)
	}
	defer p.backPressured.Stop()
	tooClose := (lack.of == segmentShortage || lack.of == queueShortage) && p.letConsumerGoAhead(ctx)
	if !tooClose {
		p.reclaim()
		if err = try(); !errors.Is(err, memseg.ErrQueueFull) {
			return err
		}
	}
	p.backPressured.Start()
	// Both sides could wait for ever if a consumer waited for more of what this
	// writer holds back.
	p.flushAll()
	var quiet standstill.Standstill
	for {
		rings := p.bell.Rings()
		p.bell.Collect(len(p.subpartitions), func(int) {}) // all of them are looked at
		size := p.pool.Size()
		lack.tooMany = tooManyOf(&p.layout, min(size, p.pool.Requested()))
		for _, s := range p.subpartitions {
			s.armReleased(maxHeld(&p.layout, size), p.farAhead(), lack)
		}
		reclaimed := 0
		if !tooClose || p.subpartitions[0].armedIsReleased() {
			reclaimed = p.reclaim()
		}
		if err = p.checkWritable(); err != nil {
			return err
		}
		if err = try(); !errors.Is(err, memseg.ErrQueueFull) {
			return err
		}
		if reclaimed > 0 {
			quiet.FoundSomething()
			continue // the consumer may have passed what was armed
		}
		if err = p.park(ctx, rings, &quiet); err != nil {
			return fmt.Errorf("partition %s: %s: %w", p.label(), lack.describe(p), err)
		}
		tooClose = false // rung or not, it takes back what there is
		p.words.WakeUps.Store(p.words.WakeUps.Load() + 1)
	}
}

const (
	// napTime is how long a writer naps to let its consumer go ahead, and mostNaps
	// how many further naps are worth it: more are left to the doorbell.
	napTime  = 100 * time.Microsecond
	mostNaps = 8
)

// letConsumerGoAhead naps while the only consumer has released less than a third of
// what it was given, or than is far enough, if it was given more than a core caches. A
// writer that took each segment as soon as it is released would stay at the heels of
// its reader: all that it writes is still in the cache of the reader's core, and the
// words of both go back and forth for every segment. Both become slower, the reader
// too, so nothing ends it. Unlike a wake-up, a nap costs the reader nothing.
//
// It reports whether the consumer is still close.
func (p *ResultPartition) letConsumerGoAhead(ctx context.Context) (tooClose bool) {
	if len(p.subpartitions) > 1 {
		return false // the pool is not so large that there could be a distance
	}
	if p.daemonLost.Load() != nil {
		return false // whatever is released shows that the consumer lives
	}
	for napped, before := false, 0; ; {
		released, given := p.subpartitions[0].releases()
		missing := min((given+2)/3, p.farAhead()) - released
		if missing <= 0 || given*p.layout.SegmentSize <= cacheSize {
			return false
		}
		p.backPressured.Start()
		if napped && missing > mostNaps*(released-before) || ctx.Err() != nil || !memseg.Nap(napTime) {
			return true
		}
		napped, before = true, released
	}
}

// farAhead is as many segments as a consumer need ever be ahead of the writer that
// comes round to them again.
func (p *ResultPartition) farAhead() int { return max(1, 3*cacheSize/p.layout.SegmentSize) }

// cacheSize is how many bytes stay in the cache of the core that has read or
// written them.
var cacheSize = cpucache.SecondLevel()

// daemonLostGrace is how long a wait may find nothing once nobody watches the
// consumers.
var daemonLostGrace = standstill.Grace

// maxWait bounds a sleep: the doorbell is a hint.
var maxWait = time.Second

// park waits for a ring, for a writer whose look has found nothing. Without the daemon
// it returns an error once that was so for a while.
func (p *ResultPartition) park(ctx context.Context, rings uint32, quiet *standstill.Standstill) error {
	timeout := maxWait
	if lost := p.daemonLost.Load(); lost != nil {
		if quiet.FoundNothing(time.Now(), daemonLostGrace) {
			return *lost
		}
		timeout = min(timeout, standstill.Step(daemonLostGrace))
	}
	return p.bell.Park(ctx, rings, p.words.Parked, timeout)
}

// Reclaim takes back what consumers have released. A writer does so when it
// needs segments; others call it to give memory back while the writer is idle.
func (p *ResultPartition) Reclaim() {
	if p.enter() == nil {
		defer p.leave()
		p.reclaim()
	}
}

// GiveBackIdle takes back what consumers have released, and gives to the daemon what
// the partition has not needed since the last call but one. It is for being called now
// and then, by any goroutine, whatever the writer does.
func (p *ResultPartition) GiveBackIdle() {
	if p.enter() != nil {
		return
	}
	defer p.leave()
	if p.pool.Used() > 0 {
		p.reclaim()
	}
	p.pool.GiveBackIdle()
}

// reclaim returns the number of elements taken back.
func (p *ResultPartition) reclaim() int {
	reclaimed := 0
	for _, s := range p.subpartitions {
		n, err := s.reclaim()
		reclaimed += n
		if err != nil {
			p.consumerLost(s, err)
		}
	}
	return reclaimed
}

// PoolResized applies a new pool size and newly granted segments.
func (p *ResultPartition) PoolResized(size int, granted []int) error {
	if err := p.enter(); err != nil {
		return err
	}
	defer p.leave()
	if len(granted) > 0 {
		if err := p.pool.Granted(granted); err != nil {
			return fmt.Errorf("partition %s: %w: %w", p.label(), err, shuffle.ErrProtocol)
		}
	}
	if err := p.pool.SetNumBuffers(size); err != nil {
		return fmt.Errorf("partition %s: %w", p.label(), err)
	}
	p.words.PoolSize.Store(uint64(size))
	if p.pool.Requested() > size {
		p.reclaim()
	}
	p.bell.Wake()
	return nil
}

// SetDaemonLost says that nobody watches the consumers any more. Attached ones
// go on; but a wait for segments that finds none for a while returns err, since
// a consumer may have died unnoticed.
func (p *ResultPartition) SetDaemonLost(err error) {
	if p.check() != nil {
		return
	}
	if err == nil {
		err = fmt.Errorf("partition %s: %w", p.label(), shuffle.ErrDaemonLost)
	}
	p.daemonLost.CompareAndSwap(nil, &err)
	p.wake()
}
