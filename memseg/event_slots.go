package memseg

import (
	"fmt"
	"sync"
)

// EventSlots are the slots of a partition region that hold the bytes of its events,
// from the producer's side. All queues share them: an event that goes to every
// subpartition takes one slot, which is free again when the last queue that names it
// has. The counts are in the producer's heap.
//
// A queue names at most eventsPerQueue events and priorityCapacity priority events. So
// there is a slot for each next event of a producer that sends every event to all
// queues, one event after the other: what a queue names then, all slower ones do.
//
// Safe for concurrent use.
type EventSlots struct {
	mem []byte

	mu   sync.Mutex
	uses [eventSlots]int // queues that name the slot, and who has put the event there
}

// A StoredEvent is an event in its slot.
type StoredEvent struct{ slot, length int }

// NewEventSlots returns the slots of a region that the process maps for writing.
func NewEventSlots(region *Region) *EventSlots {
	return &EventSlots{mem: region.Bytes()[partEventSlots:partQueuesStart]}
}

// Put copies an event into a free slot, which the caller holds until Release.
// ErrEventTooLarge means that no slot can hold it, ErrQueueFull that consumers must
// release first.
func (s *EventSlots) Put(content []byte) (StoredEvent, error) {
	if len(content) > eventSlotSize {
		return StoredEvent{}, fmt.Errorf("event of %d bytes, want at most %d: %w", len(content), eventSlotSize,
			ErrEventTooLarge)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for slot, uses := range s.uses {
		if uses == 0 {
			s.uses[slot] = 1
			copy(s.mem[slot*eventSlotSize:], content)
			return StoredEvent{slot: slot, length: len(content)}, nil
		}
	}
	return StoredEvent{}, ErrQueueFull
}

// Release lets go of an event that Put has stored. Queues may name it still.
func (s *EventSlots) Release(e StoredEvent) { s.use(e.slot, -1) }

func (s *EventSlots) use(slot, more int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uses[slot] += more
}
