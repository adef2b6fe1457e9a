package partition

import (
	"fmt"
	"sync"

	"shuffled/internal/probe"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// A ResultSubpartition is the producer's end of one subpartition: the open
// buffer and the queue behind it. The consumer's end is a SubpartitionView.
//
// Who touches what: the goroutine that was let into builder writes there without a
// lock, see takeOver. Everything else is under mu, which the writer takes
// at commit steps and buffer ends, the output flusher at its tick, and the
// control connection when a consumer comes or goes.
type ResultSubpartition struct {
	partition *ResultPartition
	index     int

	key       uint64 // names the queue to observers
	handedOut bool   // a goroutine was let into builder
	taken     bool   // and the open buffer was taken from it

	mu       sync.Mutex
	builder  *memseg.BufferBuilder // of the open buffer, if open
	open     bool                  // the last element is an unfinished buffer
	readable bool                  // and its consumer was told to read what is in it
	queue    *memseg.QueueWriter
	segments []int32 // ring: segment of each unreleased element
	buffers  int     // unreleased elements that are data, for the quota
	link     *ConsumerLink
	discard  bool // nobody will read: elements are released at once
}

func (s *ResultSubpartition) want() *memseg.Word {
	if s.link == nil {
		return nil
	}
	return s.link.words.Want
}

// replaceBuilder has another builder, into which nobody is let, go on in the place of
// one that was taken from its filler.
func (s *ResultSubpartition) replaceBuilder(limit uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.builder, s.handedOut, s.taken = s.builder.Successor(limit), false, true
}

// stop has nobody get into the open buffer any more.
func (s *ResultSubpartition) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.builder.Stop()
}

// publish makes a started buffer the last element of the queue.
func (s *ResultSubpartition) publish(segment, partialLength int) error {
	s.readable = false
	s.segments[s.queue.Published()&uint64(len(s.segments)-1)] = int32(segment)
	s.buffers++
	return s.queue.PublishBuffer(memseg.Descriptor{
		Type: memseg.DataBuffer, Segment: segment, PartialRecordLength: partialLength,
	})
}

func (s *ResultSubpartition) hasRoom() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.HasRoom()
}

func (s *ResultSubpartition) hasEventRoom(typ memseg.DataType) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return typ.HasPriority() && s.discard || s.queue.HasEventRoom(typ)
}

// atQuota reports whether the subpartition has as many buffers as it may when a
// record begins. The lock is held.
func (s *ResultSubpartition) atQuota() bool {
	quota := s.partition.spec.MaxBuffersPerChannel
	return quota > 0 && s.buffers >= quota
}

// isAtQuota is atQuota for who does not hold the lock.
func (s *ResultSubpartition) isAtQuota() bool {
	if s.partition.spec.MaxBuffersPerChannel == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.atQuota()
}

// startShared makes a buffer that all subpartitions share the last element.
func (s *ResultSubpartition) startShared(segment, partialLength int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
	return s.publish(segment, partialLength)
}

// finishShared is finishBuffer for who does not hold the lock.
func (s *ResultSubpartition) finishShared(bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finishBuffer(bytes)
}

// finishBuffer ends the open buffer, which holds so many bytes.
func (s *ResultSubpartition) finishBuffer(bytes int) {
	s.markReadable(bytes)
	s.open = false
	s.signal(s.queue.Advance(bytes, 1, s.want()))
	s.discardFinished()
}

// addEvent queues an event, for which hasEventRoom said that there is room, and
// wakes the consumer.
func (s *ResultSubpartition) addEvent(typ memseg.DataType, e memseg.StoredEvent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if typ.HasPriority() {
		if s.discard {
			return nil // nobody would release its slot
		}
		if err := s.queue.PublishPriorityEvent(typ, e); err != nil {
			return err
		}
		s.signal(s.queue.NotifyPriority(s.want()))
		return nil
	}
	if err := s.queue.PublishEvent(typ, e); err != nil {
		return err
	}
	crossed := s.queue.Advance(0, 1, s.want())
	flushed := s.queue.Flush(0, s.want())
	s.signal(crossed || flushed)
	s.discardFinished()
	return nil
}

// flush asks the consumer to read what is committed, openBytes of it in the open
// buffer. A flush that adds nothing to the last one does nothing.
func (s *ResultSubpartition) flush(openBytes int) {
	if s.open && openBytes > 0 {
		s.markReadable(openBytes)
	}
	s.signal(s.queue.Flush(openBytes, s.want()))
}

// markReadable marks, for observers, that the open buffer can be read from now on.
func (s *ResultSubpartition) markReadable(bytes int) {
	if ordinal := s.queue.Published() - 1; !s.readable && probe.Marks(ordinal) {
		probe.Publish(s.key, ordinal, uint64(bytes))
	}
	s.readable = true
}

func (s *ResultSubpartition) signal(ring bool) {
	if ring {
		s.link.ring()
	}
}

// attach connects the consumer. It may have armed before, so it is rung once in
// any case.
func (s *ResultSubpartition) attach(link *ConsumerLink) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil || s.discard {
		return fmt.Errorf("subpartition %d: %w", s.index, shuffle.ErrAlreadyConsumed)
	}
	s.link = link
	link.ring()
	return nil
}

// detach drops the consumer. With discard, what is queued and what follows is
// released at once, and a consumer that is there nevertheless is told so first.
func (s *ResultSubpartition) detach(discard bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	link := s.link
	s.link = nil
	if discard && !s.discard {
		s.discard = true
		s.queue.Withdraw()
		s.discardFinished()
	}
	if link != nil {
		if discard {
			link.ring()
		}
		link.Close()
	}
}

// discardFinished releases every finished element once nobody will read them.
func (s *ResultSubpartition) discardFinished() {
	if !s.discard {
		return
	}
	to := s.queue.Published()
	if s.open {
		to--
	}
	_, _ = s.queue.AcceptReleased(to, s.open, s.recycle)
}

// reclaim takes back what the consumer released. A cursor that the consumer
// cannot have reached ends that consumer, not the producer's memory.
//
// It returns the number of elements taken back.
func (s *ResultSubpartition) reclaim() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link == nil || s.discard {
		return 0, nil
	}
	n, err := s.queue.AcceptReleased(s.link.words.Released.Load(), s.open, s.recycle)
	if err == nil {
		err = s.queue.AcceptPriorityReleased(s.link.words.PriorityReleased.Load())
	}
	if err != nil {
		return n, fmt.Errorf("subpartition %d: %w: %w", s.index, err, shuffle.ErrProtocol)
	}
	return n, nil
}

func (s *ResultSubpartition) recycle(ordinal uint64) {
	s.buffers--
	segment := int(s.segments[ordinal&uint64(len(s.segments)-1)])
	s.partition.releaseSegment(segment)
}

// armReleased asks the consumer for a wake-up when it has released half of what it
// was given, or as many elements as are enough: segments that were read a while ago
// have left the cache of the core that read them, and a writer that follows its
// reader closely slows both down. But the consumer's user may keep some, and the
// open buffer cannot be released. It also leaves what its user may hold back while the
// writer sleeps for lack.
func (s *ResultSubpartition) armReleased(maxHeld, enough int, lack *shortage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.queue.Unreleased(); n > 0 {
		s.queue.LimitHeld(lack.heldLimit(s.index, n))
		s.queue.ArmReleased(memseg.ReleasesToWaitFor(n, maxHeld, enough))
	}
}

// releases returns how many elements the consumer was given, as of the last
// reclaim, and how many of these it has released since.
func (s *ResultSubpartition) releases() (released, given int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	given = s.queue.Unreleased()
	if s.link != nil {
		released = int(min(s.link.words.Released.Load()-s.queue.Released(), uint64(given)))
	}
	return released, given
}

// armedIsReleased reports whether the consumer has passed what armReleased asked for.
func (s *ResultSubpartition) armedIsReleased() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.link != nil && s.queue.ArmedIsReleased(s.link.words.Released.Load())
}

// out returns how many bytes and buffers are finished. The stream's position counts
// bytes and elements.
func (s *ResultSubpartition) out() (bytes, buffers int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	open := int64(0)
	if s.open {
		open = 1
	}
	finished := s.queue.Published() - uint64(open)
	return int64(s.queue.Position() - finished), int64(s.queue.Buffers()) - open
}

// QueuedBuffers returns how many elements the consumer has not released, as of
// the last look of the producer.
func (s *ResultSubpartition) QueuedBuffers() int {
	if s == nil || s.queue == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue.Unreleased()
}
