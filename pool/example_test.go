package pool_test

import (
	"errors"
	"fmt"

	"shuffled/pool"
)

// A budget of 16 segments is shared by two partitions of four subpartitions.
func Example() {
	network, err := pool.NewNetworkBufferPool(16, pool.DefaultSegmentSize)
	if err != nil {
		panic(err)
	}
	required, most := pool.PartitionBounds(true, 4, pool.DefaultBuffersPerChannel, pool.DefaultFloatingBuffers)
	config := pool.LocalConfig{Required: required, Max: most, Subpartitions: 4}

	first, err := network.CreateLocalPool(config)
	if err != nil {
		panic(err)
	}
	fmt.Println("alone:", first.Size())
	second, err := network.CreateLocalPool(config)
	if err != nil {
		panic(err)
	}
	fmt.Println("together:", first.Size(), second.Size())

	// A segment for subpartition 2. If none were free, one would wait for
	// first.FreeSegment() and try again.
	segment, ok, err := first.TryRequest(2)
	fmt.Println("segment:", segment, ok, err)
	first.Recycle(segment, 2)

	second.LazyDestroy()
	fmt.Println("alone again:", first.Size())
	first.LazyDestroy()
	_, _, err = first.TryRequest(2)
	fmt.Println("destroyed:", errors.Is(err, pool.ErrDestroyed), network.Stats().Available)

	// Output:
	// alone: 16
	// together: 8 8
	// segment: 0 true <nil>
	// alone again: 16
	// destroyed: true 16
}
