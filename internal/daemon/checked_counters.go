package daemon

import "time"

// A checkedCounter follows a counter that a client's process writes. It takes in
// what the counter grew by, and never more than can be.
type checkedCounter struct {
	raw     uint64 // as of the last look
	counted uint64
}

// take looks at the counter, of which no more than most can have come together
// since its owner began. One that went back goes on from there, unless it is by no more
// than jitter, which is what an honest one may be too low by.
func (c *checkedCounter) take(raw, most, jitter uint64) {
	if raw <= c.raw && c.raw-raw <= jitter {
		return
	}
	if raw > c.raw {
		grown := raw - c.raw
		c.counted = max(c.counted, min(most, c.counted+min(grown, most)))
	}
	c.raw = raw
}

// What one process can do at the very most in a nanosecond, with room for faster
// machines.
const (
	mostBytesPerNano  = 256 // a quarter of a TB/s
	mostEventsPerNano = 1   // records, buffers, elements
	nanosPerWakeUp    = 100
)

// ageBounds are what counters can have come to in some time.
type ageBounds struct {
	nanos, bytes, events, wakeUps uint64
}

func boundsOf(age time.Duration) ageBounds {
	nanos := uint64(max(age, 0)) + uint64(100*time.Millisecond) // it begins before the daemon hears of it
	return ageBounds{
		nanos: nanos, bytes: mostBytesPerNano * nanos, events: mostEventsPerNano * nanos,
		wakeUps: nanos / nanosPerWakeUp,
	}
}

// partitionCounters are the counters of one partition.
type partitionCounters struct {
	bytes, buffers, records, backPressuredNs, wakeUps checkedCounter

	last regionStats // as of the last look, for when there is nothing to look at
}

// take looks at all of them. elements is how many places the queues have: the bytes are
// too low by those that were published and are not finished, see memseg.QueueStats.
func (c *partitionCounters) take(now regionStats, elements int, age time.Duration) regionStats {
	most := boundsOf(age)
	c.bytes.take(now.bytes, most.bytes, uint64(elements))
	c.buffers.take(now.buffers, most.events, 0)
	c.records.take(now.records, most.events, 0)
	c.backPressuredNs.take(now.backPressuredNs, most.nanos, 0)
	c.wakeUps.take(now.wakeUps, most.wakeUps, 0)
	c.last = regionStats{c.bytes.counted, c.buffers.counted, c.records.counted, c.backPressuredNs.counted,
		c.wakeUps.counted}
	return c.last
}

// gateCounters are the counters of one gate.
type gateCounters struct {
	wakeUps, idleNs checkedCounter
}

func (c *gateCounters) take(wakeUps, idleNs uint64, age time.Duration) {
	most := boundsOf(age)
	c.wakeUps.take(wakeUps, most.wakeUps, 0)
	c.idleNs.take(idleNs, most.nanos, 0)
}
