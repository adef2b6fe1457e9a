package memseg

// The decisions of the wake-up protocol, which docs/wakeup.md states and proves.
// Both ends and the exhaustive test of the protocol make them here. Cursors and
// positions may wrap; two that are compared are never 2^63 apart.

// crosses reports whether a cursor that moves from old to new passes mark:
// old <= mark < new.
func crosses(mark, old, new uint64) bool { return mark-old < new-old }

// isBeyond reports whether position lies after mark.
func isBeyond(position, mark uint64) bool { return int64(position-mark) > 0 }

// ReleasesToWaitFor is how many more releases a writer asks to be woken for, of the
// unreleased elements of a queue, of which there are some: half of them, or enough.
// It is never more than can come while the consumer's user keeps maxHeld and the last
// buffer is open, unless that is nothing: then the user must release first.
func ReleasesToWaitFor(unreleased, maxHeld, enough int) int {
	return max(1, min(enough, unreleased/2, unreleased-1-maxHeld))
}
