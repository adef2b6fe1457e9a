package partition

import (
	"fmt"
	"runtime/debug"
	"time"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// A consumer's user may keep buffers, and reads on meanwhile. Two things limit that,
// and both are ErrTooManyBuffersHeld. At most maxHeld buffers are kept beside the one
// that is being read. And the released cursor is one number: what was read after a
// kept buffer goes back to the producer only behind it, so one that is kept for long
// holds back more and more, which nobody minds until the producer waits for just that.
// Then the user is told, at the latest after stuckGrace, so that the two never wait for
// each other.

// maxHeld is how many buffers the user of a consumer may keep while it reads on: half
// of a subpartition's share of the pool, at least one.
func maxHeld(l *memseg.PartitionLayout, poolSize int) int {
	share := min(poolSize, l.Segments) / (2 * l.Subpartitions)
	return min(max(share, 1), l.QueueCapacity/2)
}

// tooManyOf is how many elements a consumer's user holds back at least if the writer
// cannot go on for want of a segment of so many: more than half of its share, or any at
// all where that is less than one. If nobody holds back that much, there is a segment
// beside what is held back and an open buffer of each other subpartition.
func tooManyOf(l *memseg.PartitionLayout, segments int) int {
	if segments < 2*l.Subpartitions {
		return 1
	}
	return maxHeld(l, segments) + 1
}

func (v *SubpartitionView) maxHeld() int { return v.maxHeldOf(v.poolSize.Load()) }

func (v *SubpartitionView) maxHeldOf(poolSize uint64) int {
	return maxHeld(&v.layout, int(min(poolSize, uint64(v.layout.Segments))))
}

// held returns, to the goroutine that reads, how many elements the user has not
// released, and how many were read and not given back to the producer, which are these
// and those behind the oldest of them. The oldest one is that at released.
func (v *SubpartitionView) held() (kept, heldBack int, released uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return int(v.consumed - v.recycled), int(v.consumed - v.released), v.released
}

// An allowance is up to which element checkHeld has found that the user may be handed
// them, whatever it keeps of those, as long as the pool has that size.
type allowance struct{ until, poolSize uint64 }

// isAllowed reports whether a further element may be handed out without another look
// at what was released.
func (v *SubpartitionView) isAllowed() bool {
	return int64(v.allowance.until-v.consumed) >= 0 && v.allowance.poolSize == v.poolSize.Load()
}

// checkHeld returns an error unless a further element may be handed out.
func (v *SubpartitionView) checkHeld() error {
	poolSize := v.poolSize.Load()
	limit := v.maxHeldOf(poolSize)
	kept, heldBack, _ := v.held()
	if kept > limit {
		if err := v.CheckMemory(); err != nil {
			return err
		}
		return v.tooManyHeld(fmt.Sprintf("%d buffers are not released, want at most %d, half of the subpartition's share of the pool, beside the one that is read", kept, limit))
	}
	if heldBack >= len(v.done) {
		return v.protocolError(fmt.Errorf("element %d was published over one that is not released: %w", v.queue.Next(),
			memseg.ErrCorrupt))
	}
	v.allowance = allowance{until: v.consumed + uint64(min(limit-kept, len(v.done)-1-heldBack)), poolSize: poolSize}
	return nil
}

func (v *SubpartitionView) tooManyHeld(why string) error {
	return fmt.Errorf("subpartition %d of partition %s: %s: release buffers and read on: %w",
		v.producer.subpartition, shuffle.PartitionID(v.layout.ID), why, shuffle.ErrTooManyBuffersHeld)
}

// A stuckProducer is one that waits for what the user of its consumer holds back.
type stuckProducer struct {
	since    time.Time // zero while it does not
	released uint64    // the cursor then
}

// stuckGrace is how long that must last: the producer looks for itself what was
// released at least once a second.
const stuckGrace = 3 * time.Second / 2

// Keeps reports whether the user has not released all that was read. A producer may
// come to wait for that later, without a ring: a consumer looks now and then.
func (v *SubpartitionView) Keeps() bool {
	kept, _, _ := v.held()
	return kept > 0 && !v.ended && !v.closed
}

// HoldsBack reports whether so much is held back by kept buffers that the producer
// might wait for it. A consumer that finds nothing to read asks CheckStuck then.
func (v *SubpartitionView) HoldsBack() bool {
	kept, heldBack, _ := v.held()
	return kept > 0 && !v.ended && !v.closed && (heldBack >= v.maxHeld() || v.queue.HeldLimit().IsReached(heldBack))
}

// CheckStuck returns ErrTooManyBuffersHeld if there is nothing to read because the
// producer waits for what kept buffers hold back, and has done so for a while: segments
// or whatever else its limit names. It is called again and again while HoldsBack.
func (v *SubpartitionView) CheckStuck(now time.Time) error {
	kept, heldBack, released := v.held()
	limit := v.queue.HeldLimit()
	if !v.HoldsBack() || v.parked.Load() == 0 || !v.queue.WantsReleased(released) || !limit.IsReached(heldBack) {
		v.stuck = stuckProducer{}
		return nil
	}
	if v.stuck.since.IsZero() || v.stuck.released != released {
		v.stuck = stuckProducer{since: now, released: released}
		v.producer.ring() // it may do with less than it asked for
		return nil
	}
	waited := now.Sub(v.stuck.since)
	if waited < stuckGrace {
		return nil
	}
	return v.tooManyHeld(fmt.Sprintf("the producer has been waiting for %v for what kept buffers hold back: %d are kept, the oldest is element %d, and %d of %d elements read since then were released; it goes on with at most %d held back, %s",
		waited.Round(time.Millisecond), kept, released-v.layout.FirstOrdinal, heldBack-kept, heldBack, limit.Elements-1,
		describeLack(limit.Lack)))
}

// describeLack says what the limit of a waiting producer is. The number is the
// producer's, who may say anything.
func describeLack(lack memseg.HeldLack) string {
	switch lack {
	case memseg.HeldSegments:
		return "half of the subpartition's share of the segments that it has"
	case memseg.HeldQuota:
		return "fewer than its MaxBuffersPerChannel allows the subpartition"
	case memseg.HeldPlaces:
		return "fewer than its queue names"
	case memseg.HeldEvents:
		return "so that it can send further events"
	}
	return "as it says"
}

// Recycle counts an element as released; memseg calls it for the last reference.
// The cursor moves past an element only after all before it.
func (v *SubpartitionView) Recycle(ordinal uint64) {
	v.mu.Lock()
	mask := uint64(len(v.done) - 1)
	v.done[ordinal&mask] = true
	v.recycled++
	old := v.released
	// The head of a view that was closed is done too, though not read to its end.
	for v.done[v.released&mask] && !(v.closed && v.released == v.consumed) {
		v.done[v.released&mask] = false
		v.released++
	}
	if v.released != old {
		v.words.Released.Store(v.released)
		v.ringIfWanted(old)
	}
	v.unlockAndUnmap()
}

// ringIfWanted wakes the producer if the released cursor, which was at old, has
// passed what it waits for. A buffer is released from any goroutine, so a fault of
// the producer's memory is caught here: there is nobody to tell of it, and the
// channel finds it when it reads on.
func (v *SubpartitionView) ringIfWanted(old uint64) {
	onFault, hasReturned := debug.SetPanicOnFault(true), false
	defer func() {
		debug.SetPanicOnFault(onFault)
		if hasReturned {
			return
		}
		if p := recover(); p != nil && memseg.FaultOf(p, "release") == nil {
			panic(p)
		}
	}()
	if v.queue.CrossesWantReleased(old, v.released) {
		v.producer.ring()
	}
	hasReturned = true
}

// Recycle counts a priority event as released, and those behind it that wait for
// it.
func (r *priorityRecycler) Recycle(ordinal uint64) {
	v := r.view
	v.mu.Lock()
	v.prioritiesDone |= 1 << (ordinal % maxPrioritiesHanded)
	for v.prioritiesReleased != v.prioritiesHanded {
		bit := uint64(1) << ((v.queue.FirstOrdinal() + v.prioritiesReleased) % maxPrioritiesHanded)
		if v.prioritiesDone&bit == 0 {
			break
		}
		v.prioritiesDone &^= bit
		v.prioritiesReleased++
	}
	v.words.PriorityReleased.Store(v.queue.FirstOrdinal() + v.prioritiesReleased)
	v.ring()
	v.unlockAndUnmap()
}

// ring wakes the producer, if its doorbell is still there.
func (v *SubpartitionView) ring() {
	var fault error
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "ring", &fault)
	v.producer.ring()
}
