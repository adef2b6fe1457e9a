package shuffle

import (
	"slices"
	"time"
)

// PartitionState is where a partition stands in its life, as the daemon sees it.
type PartitionState uint8

// The states of a partition. The last six are ends: the partition is not found
// any more, and is listed only while somebody still holds its memory.
const (
	// PartitionCreated is a partition whose producer has not mapped it yet.
	PartitionCreated PartitionState = iota
	// PartitionRunning is one that is produced.
	PartitionRunning
	// PartitionFinished is one that is complete and not consumed yet.
	PartitionFinished
	// PartitionConsumed is one that was finished and read to its end.
	PartitionConsumed
	// PartitionFailed is one whose producer reported a failure.
	PartitionFailed
	// PartitionReleased is one that its producer gave up.
	PartitionReleased
	// PartitionExpired is one that nobody read in time.
	PartitionExpired
	// PartitionLost is one whose producer went away without finishing it.
	PartitionLost
	// PartitionFenced is one that a newer attempt replaced.
	PartitionFenced
)

var partitionStates = [...]string{
	"created", "running", "finished", "consumed", "failed", "released", "expired", "lost", "fenced",
}

// String returns the state in lower case.
func (s PartitionState) String() string {
	if int(s) < len(partitionStates) {
		return partitionStates[s]
	}
	return "unknown"
}

// HasEnded reports whether the partition has left the registry.
func (s PartitionState) HasEnded() bool { return s >= PartitionConsumed }

// PartitionInfo is what operators see of a partition.
type PartitionInfo struct {
	ID            PartitionID
	Attempt       uint32
	Name          string
	Type          ResultPartitionType
	State         string // a PartitionState
	Subpartitions int
	Created       time.Time
	// Failure is why the partition ended, empty while it has not; long causes are
	// cut. Ended is when it did.
	Failure string
	Ended   time.Time

	// Producer is who created the partition; ProducerAttached is whether it still
	// has it open.
	Producer         Principal
	ProducerAttached bool

	// PoolRequired, PoolMax and PoolSize bound the segments of the partition,
	// SegmentsHeld is how many it has.
	PoolRequired, PoolMax, PoolSize, SegmentsHeld int

	// HeldBytes is the memory of those.
	HeldBytes int64
	// Readers is how many consumers still have a partition that has ended. Keeper is
	// the one of them that has released nothing for the longest time, StillSince
	// since when.
	Readers    int
	Keeper     Principal
	StillSince time.Time

	// BytesOut and BuffersOut count what was written for each subpartition, as
	// far as buffers are finished. While a buffer is open, BytesOut may be one
	// byte short for each subpartition. Records is the producer's own count.
	BytesOut, BuffersOut, Records uint64
	// BackPressured is how long the producer waited for segments; WakeUps is how
	// often it slept and was woken.
	BackPressured time.Duration
	WakeUps       uint64

	// SubpartitionInfo is filled in by Inspect only.
	SubpartitionInfo []SubpartitionInfo
}

// HasEnded reports whether State is one of the ends.
func (i *PartitionInfo) HasEnded() bool {
	return i != nil && slices.Contains(partitionStates[PartitionConsumed:], i.State)
}

// SubpartitionInfo is what operators see of a subpartition.
type SubpartitionInfo struct {
	Index int
	// State is "idle" before a consumer came, "attached", and "consumed" or
	// "abandoned" after it was read to its end or not.
	State string
	// BuffersPublished and BuffersReleased count elements, events included.
	BuffersPublished, BuffersReleased uint64
	BytesOut                          uint64
	// Consumer is who reads; GateID and Channel say where. Zero unless attached.
	Consumer Principal
	GateID   uint64
	Channel  int
}
