package pool

// A segmentRing is a queue of segment numbers that allocates only in reserve.
//
// First in, first out matters for speed: the segment that was freed longest ago
// has left the cache of the core that read it, while the one freed last would be
// written over under its reader's nose.
type segmentRing struct {
	slots []int // its length is a power of two, or 0
	head  int   // counts what was ever popped
	tail  int   // counts what was ever pushed
}

func (r *segmentRing) len() int { return r.tail - r.head }

// reserve makes room for n segments in total.
func (r *segmentRing) reserve(n int) {
	if n <= len(r.slots) {
		return
	}
	size := max(8, len(r.slots))
	for size < n {
		size *= 2
	}
	slots := make([]int, size)
	count := r.len()
	for i := range count {
		slots[i] = r.slots[(r.head+i)&(len(r.slots)-1)]
	}
	r.slots, r.head, r.tail = slots, 0, count
}

// push appends a segment. There must be room for it.
func (r *segmentRing) push(segment int) {
	if r.len() == len(r.slots) {
		panic("pool: more free segments than were reserved for")
	}
	r.slots[r.tail&(len(r.slots)-1)] = segment
	r.tail++
}

// pop takes the segment that was pushed first; ok is false if there is none.
func (r *segmentRing) pop() (segment int, ok bool) {
	if r.head == r.tail {
		return 0, false
	}
	segment = r.slots[r.head&(len(r.slots)-1)]
	r.head++
	return segment, true
}
