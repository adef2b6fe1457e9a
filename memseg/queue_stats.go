package memseg

import (
	"runtime/debug"
	"time"
)

// QueueStats are the words of one subpartition's queue as of one look, for
// operators. The producer goes on meanwhile, so they need not fit each other to
// the last element, and a hostile one may write anything: only differences that
// the layout allows are kept, others count as 0.
type QueueStats struct {
	// Published counts elements, Buffers the data buffers among them.
	Published, Buffers uint64
	// Bytes counts the bytes of finished data buffers, one less while a buffer is
	// open, and for each element that was published during the look.
	Bytes uint64
}

// PartitionStats are the counters of a partition region as of one look.
type PartitionStats struct {
	Records, WakeUps uint64
	// Idle and BackPressured are at most as long as the producer has been there.
	Idle, BackPressured time.Duration
	// Waiting is whether BackPressured grows at the moment.
	Waiting bool
}

// maxCounter bounds what is believed of a counter that another process writes.
const maxCounter = 1 << 62

func believable(n uint64) uint64 {
	if n > maxCounter {
		return 0
	}
	return n
}

// ReadQueueStats looks at a queue of a partition region that the producer has set
// up, of which at least the control area is mapped. A region whose memory is gone is ErrFault.
func ReadQueueStats(region *Region, l *PartitionLayout, subpartition int) (s QueueStats, err error) {
	defer RecoverFault(debug.SetPanicOnFault(true), "read queue of "+region.Name(), &err)
	base := int(l.queueOffset(subpartition))
	// first: too few bytes are seen later
	position := believable(region.Word(base+queuePosition).Load() - l.FirstOrdinal)
	s.Published = believable(region.Word(base+queuePublished).Load() - l.FirstOrdinal)
	s.Buffers = min(believable(region.Word(base+queueBuffers).Load()), s.Published)
	if position > s.Published {
		s.Bytes = position - s.Published
	}
	return s, nil
}

// ReadPartitionStats looks at the counters of a partition region whose producer has
// been there for age. A region whose memory is gone is ErrFault.
func ReadPartitionStats(region *Region, age time.Duration) (s PartitionStats, err error) {
	defer RecoverFault(debug.SetPanicOnFault(true), "read counters of "+region.Name(), &err)
	words := NewPartitionWords(region)
	s.Records, s.WakeUps = believable(words.Records.Load()), believable(words.WakeUps.Load())
	s.Idle = min(time.Duration(believable(words.IdleNs.Load())), max(age, 0))
	s.BackPressured, s.Waiting = ReadStopwatch(words.BackPressuredNs, age)
	return s, nil
}
