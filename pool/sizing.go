package pool

import "shuffled/internal/cpucache"

// Defaults that users of Flink know. Counts are in segments.
const (
	// DefaultSegmentSize is the size of a segment in bytes, as
	// taskmanager.memory.segment-size.
	DefaultSegmentSize = 32 << 10
	// DefaultBuffersPerChannel is what each channel adds to the size of a pool, as
	// taskmanager.network.memory.buffers-per-channel.
	DefaultBuffersPerChannel = 2
	// DefaultFloatingBuffers is what the channels of a pool share, as
	// taskmanager.network.memory.floating-buffers-per-gate. Partitions share
	// FloatingBuffers segments by default, which is more.
	DefaultFloatingBuffers = 8
)

// DefaultFloatingBytes returns how much a pipelined partition should be able to
// have in flight besides the share of its channels: six times a core's second-level
// cache with one subpartition, 4 to 24 MiB, and twice that cache with more, 4 to 8
// MiB.
//
// A consumer should stay more than a cache behind its producer, and a producer more
// than a cache behind the consumer that it writes over; what is in motion comes on
// top. Where a producer turns to several consumers, and a consumer to several
// producers, they are that far apart anyway, and more in flight would not fit the
// cache that all cores share.
func DefaultFloatingBytes(subpartitions int) int {
	const least = 4 << 20
	if subpartitions == 1 {
		return min(max(least, 6*cpucache.SecondLevel()), 6*least)
	}
	return min(max(least, 2*cpucache.SecondLevel()), 2*least)
}

// FloatingBuffers returns how many segments the channels of a pipelined partition
// share if they are to hold targetBytes, but at least DefaultFloatingBuffers. The
// segment size must be positive.
//
// The share is sized in bytes because what matters is the cache of a core, see
// DefaultFloatingBytes. With less than about twice its second level in flight the
// hand-over is several times slower.
func FloatingBuffers(segmentSize, targetBytes int) int {
	return max(DefaultFloatingBuffers, targetBytes/segmentSize)
}

// PartitionBounds returns the smallest and the largest size of the pool of a
// result partition. It requires a segment for each subpartition to write and one
// more to go on with. A bounded partition can use buffersPerChannel segments for
// each subpartition and a floating share, but never less than it requires; another
// one can use any number: Unlimited. No argument may be negative.
//
// As in Flink's ResultPartitionFactory.
func PartitionBounds(bounded bool, subpartitions, buffersPerChannel, floating int) (required, most int) {
	required = subpartitions + 1
	if !bounded {
		return required, Unlimited
	}
	return required, max(required, subpartitions*buffersPerChannel+floating)
}
