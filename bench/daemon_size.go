package bench

import (
	"fmt"

	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// sizeFor returns the size of a daemon for so many partitions and gates at a
// time, of a number of subpartitions and channels each. It has the default size
// at least, and lets each partition have what it can use, or what it requires.
func sizeFor(partitions, subpartitions, gates, channels int, most bool) (daemonSize, error) {
	required, maximum := pool.PartitionBounds(true, subpartitions, pool.DefaultBuffersPerChannel,
		pool.FloatingBuffers(pool.DefaultSegmentSize, pool.DefaultFloatingBytes(subpartitions)))
	partition, err := memseg.NewPartitionLayout(uint32(shuffle.PipelinedBounded), [16]byte{}, 0, subpartitions, maximum,
		pool.DefaultSegmentSize)
	if err != nil {
		return daemonSize{}, fmt.Errorf("partition of %d subpartitions: %w", subpartitions, err)
	}
	gate, err := memseg.NewGateLayout(0, channels)
	if err != nil {
		return daemonSize{}, fmt.Errorf("gate of %d channels: %w", channels, err)
	}
	segments := required
	if most {
		segments = maximum
	}
	return daemonSize{
		memory: max(daemonMemory, int64(partitions)*int64(segments)*pool.DefaultSegmentSize),
		control: max(daemonMemory/4, int64(partitions)*(partition.ControlSize()+memseg.DoorbellSize(subpartitions))+
			int64(gates)*(gate.RegionSize()+memseg.DoorbellSize(channels))),
	}, nil
}
