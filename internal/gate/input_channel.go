package gate

import (
	"fmt"
	"runtime/debug"
	"time"

	"shuffled/internal/partition"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// An inputChannel is one input of a gate. The gate's reading goroutine owns it.
type inputChannel struct {
	view    *partition.SubpartitionView // nil until attached
	failure error                       // what to return once everything is read
	ended   bool

	// A consumer that follows the producer closely slows both down, see
	// maxThreshold. So a channel that has run empty waits for threshold bytes: what
	// it gets in fillTime at its present rate. A slow channel waits for a single
	// buffer.
	threshold int
	rate      float64   // bytes per second, smoothed
	armedAt   time.Time // when the rate was measured last
	armedPos  uint64    // stream position then
	isAhead   bool      // in the gate's list of channels armed ahead

	isKeeping     bool // in the gate's list of channels whose user keeps much
	priorityTurns int  // priority events that came one after the other

	record    partialRecord // of a loop over Records
	byBuffers bool          // Next has handed out the last data that was taken
}

const (
	// fillTime is what a busy channel waits for a batch to build up.
	fillTime = time.Millisecond
	// minThreshold is the least that is worth waiting for.
	minThreshold = 64 << 10
	// minRateInterval is the least time over which a rate says something.
	minRateInterval = 50 * time.Microsecond
)

// adapt sets the threshold at a moment when the channel has run empty.
func (c *inputChannel) adapt(now time.Time) {
	position := c.view.Position()
	elapsed := now.Sub(c.armedAt)
	if elapsed < minRateInterval {
		return
	}
	if !c.armedAt.IsZero() {
		c.rate = (c.rate + float64(position-c.armedPos)/elapsed.Seconds()) / 2
	}
	c.armedAt, c.armedPos = now, position
	c.threshold = min(int(c.rate*fillTime.Seconds()), maxThreshold)
	if c.threshold < minThreshold {
		c.threshold = 0
	}
}

// leave is how much finished data the channel leaves unread, unless it was
// flushed, until the threshold is reached again.
func (c *inputChannel) leave() int { return max(0, c.threshold-(maxThreshold-maxLeft)) }

// checkMode refuses to take data in the middle of a record that was begun in the
// other way of reading.
func (c *inputChannel) checkMode(mode readingMode) error {
	if !mode.isLoop() && !c.record.isEmpty() {
		return fmt.Errorf("a loop over Records has read the beginning of a record: range over Records again: %w",
			shuffle.ErrRecordsLeft)
	}
	if mode.isLoop() && c.byBuffers && c.view.ContinuesRecord() {
		return fmt.Errorf("Next has handed out the beginning of a record: go on with Next: %w", shuffle.ErrRecordsLeft)
	}
	return nil
}

// checkMemory returns why nothing can be believed that was read in place, or nil. A
// buffer of the channel, or the channel itself, must be in use.
func (c *inputChannel) checkMemory() (err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "look at shared memory", &err)
	return c.view.CheckMemory()
}

// slow makes the channel wait for a single buffer until it is busy again.
func (c *inputChannel) slow() { c.rate, c.threshold = 0, 0 }
