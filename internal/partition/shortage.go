package partition

import (
	"fmt"

	"shuffled/memseg"
)

// A shortage is what a writer waits for, as its error says it.
type shortage struct {
	of           lacking
	subpartition int // or everySubpartition
	tooMany      int // of the segments that the pool has, for a consumer's user to hold back
}

type lacking uint8

const (
	segmentShortage  lacking = iota
	queueShortage            // the subpartition's queue has as many elements as it holds
	quotaShortage            // the subpartition has as many buffers as it may
	eventShortage            // the subpartition's event slots are taken
	priorityShortage         // the same of priority events
)

// everySubpartition is where a shared buffer goes.
const everySubpartition = -1

// describe says what is waited for, who has it, and what would help.
func (l *shortage) describe(p *ResultPartition) string {
	where := "all subpartitions"
	if l.subpartition != everySubpartition {
		where = fmt.Sprintf("subpartition %d", l.subpartition)
	}
	switch l.of {
	case queueShortage:
		s := p.subpartitions[l.subpartition]
		return fmt.Sprintf("wait for room in the queue of subpartition %d, which has the %d elements that it can hold with %d subpartitions, %s",
			l.subpartition, s.QueuedBuffers(), len(p.subpartitions), s.whyUnread())
	case quotaShortage:
		s := p.subpartitions[l.subpartition]
		return fmt.Sprintf("wait for subpartition %d, which has the %d buffers that MaxBuffersPerChannel allows, %s",
			l.subpartition, p.spec.MaxBuffersPerChannel, s.whyUnread())
	case eventShortage, priorityShortage:
		s := p.subpartitions[l.subpartition]
		return fmt.Sprintf("wait for room for an event in %s, whose event slots are taken, %s", where, s.whyUnread())
	}
	used, has, size := p.pool.Used(), p.pool.Requested(), p.pool.Size()
	text := fmt.Sprintf("wait for a free segment for %s: %d of the pool's %d are in use", where, used, size)
	if has < size && used == has {
		text += fmt.Sprintf(", the daemon has not granted the other %d (it lends no more than --memory)", size-has)
	}
	if s := p.fullest(); s != nil {
		text += fmt.Sprintf(", most of them, %d, by subpartition %d, %s", s.QueuedBuffers(), s.index, s.whyUnread())
	}
	return text
}

// heldLimit returns how many of the n unreleased elements of a subpartition its
// consumer's user may not hold back, or the shortage does not end. Segments are shared;
// the pool may have fewer than its size. Everything else is of one subpartition, all of
// whose elements are in the way: its consumer is at fault only if it has read them all.
func (l *shortage) heldLimit(subpartition, n int) memseg.HeldLimit {
	if l.of == segmentShortage {
		return memseg.HeldLimit{Elements: l.tooMany, Lack: memseg.HeldSegments}
	}
	if l.subpartition != subpartition {
		return memseg.HeldLimit{}
	}
	switch l.of {
	case quotaShortage:
		return memseg.HeldLimit{Elements: n, Lack: memseg.HeldQuota}
	case queueShortage:
		return memseg.HeldLimit{Elements: n, Lack: memseg.HeldPlaces}
	case eventShortage:
		return memseg.HeldLimit{Elements: n, Lack: memseg.HeldEvents}
	}
	return memseg.HeldLimit{} // priority events are released by themselves
}

// fullest returns the subpartition with the most unreleased elements, or nil.
func (p *ResultPartition) fullest() (fullest *ResultSubpartition) {
	most := 0
	for _, s := range p.subpartitions {
		if n := s.QueuedBuffers(); n > most {
			fullest, most = s, n
		}
	}
	return fullest
}

// whyUnread says why what is queued in a subpartition is not released.
func (s *ResultSubpartition) whyUnread() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil && !s.discard {
		return "for which no consumer has come yet"
	}
	return "whose consumer has to read and release them"
}
