package gate

import "shuffled/internal/cpucache"

// A busy channel is read in batches. Lines that the producer has just written are
// in its core's second-level cache, and fetching them from there slows both cores
// down; once as much again was written they have left it for the cache that all
// cores share. So the consumer rests until up to maxThreshold lies ahead, and leaves
// the last part of it, up to maxLeft, for the next batch.
var (
	maxThreshold = 3 * cpucache.SecondLevel()
	maxLeft      = maxThreshold / 2
)
