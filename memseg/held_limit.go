package memseg

// A HeldLimit says what a producer that sleeps waits for from the consumer of one of
// its queues: it cannot go on while that has read so many elements and not released
// them. It is what the consumer's user is told; nothing else depends on it, so a
// producer that lies about it only misleads the user of its own queue.
type HeldLimit struct {
	// Elements is 0 if the producer waits for nothing of this consumer.
	Elements int
	Lack     HeldLack
}

// HeldLack is what a producer lacks.
type HeldLack uint32

const (
	// HeldSegments: segments of its pool, of which the limit is the consumer's part.
	HeldSegments HeldLack = 1
	// HeldQuota: the queue has as many buffers as it may have at a time.
	HeldQuota HeldLack = 2
	// HeldPlaces: the queue has as many elements as it can name.
	HeldPlaces HeldLack = 3
	// HeldEvents: the queue has as many events as it may have.
	HeldEvents HeldLack = 4
)

// IsReached reports whether a consumer that holds so many elements back keeps the
// producer from going on.
func (l HeldLimit) IsReached(heldBack int) bool { return l.Elements > 0 && heldBack >= l.Elements }

func (l HeldLimit) encode() uint64 { return uint64(l.Lack)<<32 | uint64(uint32(l.Elements)) }

func decodeHeldLimit(v uint64) HeldLimit {
	return HeldLimit{Elements: int(uint32(v)), Lack: HeldLack(v >> 32)}
}

// LimitHeld stores the limit of the queue's consumer, before ArmReleased. It is for a
// producer that is about to sleep.
func (q *QueueWriter) LimitHeld(l HeldLimit) { q.heldLimit.StoreRelease(l.encode()) }

// HeldLimit loads the limit, which means something while the producer sleeps.
func (q *QueueReader) HeldLimit() HeldLimit { return decodeHeldLimit(q.heldLimit.Load()) }
