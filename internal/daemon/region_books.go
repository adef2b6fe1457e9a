package daemon

import (
	"fmt"
	"time"

	"shuffled/internal/daemon/registry"
	"shuffled/memseg"
	"shuffled/shuffle"
)

const (
	// clearExcess is how many bytes beyond what was granted are nobody's mistake.
	clearExcess = 64 << 10
	// maxStrikes is how often a region may have such an excess before somebody's
	// connection is closed for it.
	maxStrikes = 3
)

// regionBooks compare the memory that the kernel holds for a region with what was
// granted of it. hostedRegion.mu guards them; the sweeper alone writes.
type regionBooks struct {
	excess  int64 // booked, as of the last look
	stays   int64 // of it, what could not be taken away
	strikes int
	// most is one more than the highest segment that was ever handed over. In strict
	// isolation the memory of all below it stays.
	most int

	endedAt time.Time // when the partition was first seen ended
	readers map[int]*readerProgress
	shrunk  bool // what its readers had released by then was taken back
	named   bool // its keeper was, in the log
}

// readerProgress is what is known of the reader of a subpartition of an ended
// partition.
type readerProgress struct {
	who      shuffle.Principal
	released uint64
	moved    time.Time // when released last changed, or the partition ended
}

// allowedBytes is how much memory the kernel may hold for the region. The lock is
// held.
func (r *hostedRegion) allowedBytes() int64 {
	segments := r.flow.withProducer
	if r.server.config.Isolation == StrictIsolation {
		segments = r.books.most
	}
	return r.use.control - memseg.DoorbellSize(r.layout.Subpartitions) + int64(segments)*int64(r.layout.SegmentSize)
}

// lookAtRegion books what the kernel holds for a region beyond what was granted,
// and takes it away. An ended partition also gives up what its readers have
// released. It reports whether there was any excess.
func (s *Server) lookAtRegion(r *hostedRegion) (isHot bool) {
	r.mu.Lock()
	if !r.announced.Load() || r.dropped {
		r.mu.Unlock()
		return false
	}
	hosted := r.hosted
	r.mu.Unlock()
	var recycled int
	if readers, vanished, ended := hosted.Readers(); ended {
		recycled = r.shrink(readers, vanished)
	}
	found := r.compare()
	if recycled > 0 {
		r.recycle(recycled)
	}
	if found.bytes != found.before {
		s.books.book(func(t *bookTotals) {
			t.excess += found.bytes - found.before
			t.taken += uint64(found.fresh)
		})
	} else if found.fresh > 0 {
		s.books.book(func(t *bookTotals) { t.taken += uint64(found.fresh) })
	}
	if found.fresh > 0 {
		producer, _ := r.producer()
		s.throttle.Warn(s.log, "memory is used that was not granted, it is taken away", "partition", r.spec.ID, "name",
			r.spec.Name,
			"uid", producer.UID, "pid", producer.PID, "bytes", found.fresh, "granted", found.allowed)
	}
	if found.blame {
		r.blame(found)
	}
	return found.bytes > 0
}

// An excess is what a look at a region found beyond what was granted.
type excess struct {
	bytes, before int64 // now and at the last look
	fresh         int64 // what nobody had seen before
	allowed       int64
	blame         bool // somebody's connection is to be closed for it
	culprits      []*session
}

// compare takes away what is not granted, and returns what there was.
func (r *hostedRegion) compare() (e excess) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped {
		return e
	}
	b := &r.books
	backed, err := r.memory.memfd.BackedBytes()
	if err != nil {
		return e
	}
	e.before, e.allowed = b.excess, r.allowedBytes()
	e.bytes = max(0, backed-e.allowed)
	b.excess = e.bytes
	if e.bytes == 0 {
		b.stays = 0
		r.ranges.settle()
		return e
	}
	e.fresh = max(0, e.bytes-max(b.stays, r.ranges.looseBytes()))
	strict := r.server.config.Isolation == StrictIsolation
	if e.fresh >= clearExcess && b.endedAt.IsZero() && !memseg.GivesHugePages() {
		b.strikes++
		if e.blame = strict || b.strikes >= maxStrikes; e.blame {
			b.strikes = 0
			e.culprits = r.culprits(e.allowed)
		}
	}
	if strict {
		b.stays = e.bytes
		return e
	}
	r.punchUngranted()
	if backed, err = r.memory.memfd.BackedBytes(); err == nil {
		b.stays = max(0, backed-e.allowed)
	}
	return e
}

// punchUngranted takes away the memory of all segments that are not with the
// producer. The lock is held.
func (r *hostedRegion) punchUngranted() {
	r.flow.set.EachFree(func(first, last int) bool {
		err := r.memory.punch(first, last)
		if err != nil {
			r.server.log.Warn("give memory back", "partition", r.spec.ID, "error", err)
		}
		return err == nil
	})
}

// culprits returns the sessions whose processes have more of the region in their
// page tables than may be there. Where that cannot be told, it is the producer's,
// unless a reader of another user may have done it. The lock is held.
func (r *hostedRegion) culprits(allowed int64) []*session {
	inode, err := r.memory.memfd.Inode()
	if err != nil {
		return nil
	}
	producer := r.session.Load()
	suspects := make(map[*session]struct{})
	if producer != nil {
		suspects[producer] = struct{}{}
	}
	foreign := false
	readers, _, _ := r.hosted.Readers()
	for _, request := range readers {
		reader := request.Consumer().(*hostedChannel).gate.session
		suspects[reader] = struct{}{}
		foreign = foreign || reader.who.UID != r.uid
	}
	var found []*session
	for s := range suspects {
		if resident, ok := residentBytes(s.who.PID, inode); ok && resident >= allowed+clearExcess {
			found = append(found, s)
		}
	}
	if len(found) == 0 && producer != nil && !foreign {
		found = append(found, producer)
	}
	return found
}

// blame closes the connections of those who did it.
func (r *hostedRegion) blame(e excess) {
	for _, s := range e.culprits {
		s.kick(fmt.Errorf("partition %s: %d bytes of its memory are in use that were never granted: %w", r.spec.ID,
			e.bytes, shuffle.ErrProtocol))
	}
}

// producer returns who created the partition and whether it is connected.
func (r *hostedRegion) producer() (who shuffle.Principal, connected bool) {
	if s := r.session.Load(); s != nil {
		return s.who, true
	}
	return shuffle.Principal{UID: r.uid, PID: r.pid}, false
}

// shrink takes back the segments of an ended partition that nobody reads any more,
// and returns how many, counted as returning. What its readers have not released is
// theirs. If one has vanished all of it may be, since nobody knows how far that one is.
func (r *hostedRegion) shrink(readers []*registry.SubpartitionRequest, vanished bool) (freed int) {
	stopped := r.hasStopped()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped {
		return 0
	}
	now := time.Now()
	b := &r.books
	if b.endedAt.IsZero() {
		b.endedAt, b.readers = now, make(map[int]*readerProgress)
		return 0 // what the producer is about to publish at this moment is seen next time
	}
	moved := b.noteProgress(r, readers, now)
	r.nameKeeper(now)
	if !stopped || vanished || b.shrunk && !moved || r.flow.withProducer == 0 ||
		r.server.config.Isolation == StrictIsolation {
		return 0
	}
	unread := make(map[int]bool)
	for _, request := range readers {
		sub := request.Subpartition()
		segments, err := memseg.UnreadSegments(r.memory.control, &r.layout, sub, b.readers[sub].released)
		if err != nil {
			return 0 // it may be any
		}
		for _, segment := range segments {
			unread[segment] = true
		}
	}
	var free []int
	r.flow.set.EachTaken(func(segment int) {
		if !unread[segment] {
			free = append(free, segment)
		}
	})
	b.shrunk = true
	if len(free) == 0 || r.flow.takeBack(free) != nil {
		return 0
	}
	r.ranges.tookBack(free)
	r.flow.returning += len(free)
	r.uncommit(free)
	return len(free)
}

// noteProgress looks at how far the readers are, and reports whether any has moved
// or left since the last look.
func (b *regionBooks) noteProgress(r *hostedRegion, readers []*registry.SubpartitionRequest,
	now time.Time) (moved bool) {
	seen := make(map[int]*readerProgress, len(readers))
	moved = len(readers) != len(b.readers)
	for _, request := range readers {
		gate, channel := request.Consumer().Place()
		released := r.server.released(gate, channel, r.layout.FirstOrdinal)
		p := b.readers[request.Subpartition()]
		switch {
		case p == nil:
			p = &readerProgress{who: request.Who(), released: released, moved: b.endedAt}
			moved = true
		case p.released != released:
			p.released, p.moved = released, now
			moved = true
		}
		seen[request.Subpartition()] = p
	}
	b.readers = seen
	return moved
}

// hasStopped reports whether the producer cannot publish anything any more: it has
// said so, or its process has ended. One that only lost its connection goes on
// until it notices.
func (r *hostedRegion) hasStopped() bool {
	if r.stopped.Load() {
		return true
	}
	return r.session.Load() == nil && hasEnded(r.pid)
}
