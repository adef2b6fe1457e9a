package daemon

import (
	"fmt"
	"time"
)

// keeperPatience is how long the reader of an ended partition may stand still before
// the log names it.
const keeperPatience = 30 * time.Second

// keeper returns the reader that has released nothing for the longest time, and how
// many readers there are; 0 unless the partition has ended.
func (b *regionBooks) keeper() (keeper readerProgress, readers int) {
	for _, p := range b.readers {
		if readers == 0 || p.moved.Before(keeper.moved) {
			keeper = *p
		}
		readers++
	}
	return keeper, readers
}

// nameKeeper logs once who keeps the memory of an ended partition. The lock is
// held.
func (r *hostedRegion) nameKeeper(now time.Time) {
	keeper, readers := r.books.keeper()
	if r.books.named || readers == 0 || r.flow.withProducer == 0 || now.Sub(keeper.moved) < keeperPatience {
		return
	}
	r.books.named = true
	r.server.log.Warn("a partition has ended and its reader stands still with its memory", "partition", r.spec.ID,
		"name", r.spec.Name,
		"bytes", int64(r.flow.withProducer)*int64(r.layout.SegmentSize), "readers", readers, "reader_uid",
		keeper.who.UID, "reader_pid", keeper.who.PID,
		"still_since", keeper.moved)
}

// describeKeeper names the reader that keeps the memory of an ended partition; ""
// for others.
func (r *hostedRegion) describeKeeper() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	keeper, readers := r.books.keeper()
	if readers == 0 {
		return ""
	}
	return fmt.Sprintf(", read by uid %d pid %d, which has released nothing for %v",
		keeper.who.UID, keeper.who.PID, time.Since(keeper.moved).Round(time.Second))
}

// heldSegments is how many segments are charged to the partition.
func (r *hostedRegion) heldSegments() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.grant == nil {
		return 0
	}
	return r.grant.Held()
}
