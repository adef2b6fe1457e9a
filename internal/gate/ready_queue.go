package gate

// A readyQueue holds the channels that may have something to read, each at most
// once, in the order in which they are read.
type readyQueue struct {
	ring       []int
	head, size int
	enqueued   []bool
}

func newReadyQueue(channels int) readyQueue {
	return readyQueue{ring: make([]int, channels), enqueued: make([]bool, channels)}
}

func (q *readyQueue) len() int { return q.size }

// push puts a channel at the end, unless it is in the queue.
func (q *readyQueue) push(channel int) {
	if q.enqueued[channel] {
		return
	}
	q.enqueued[channel] = true
	q.ring[q.wrap(q.head+q.size)] = channel
	q.size++
}

// pushFirst puts a channel with a priority event at the front.
func (q *readyQueue) pushFirst(channel int) {
	q.remove(channel)
	q.enqueued[channel] = true
	q.head = q.wrap(q.head + len(q.ring) - 1)
	q.ring[q.head] = channel
	q.size++
}

func (q *readyQueue) pop() (channel int, ok bool) {
	if q.size == 0 {
		return 0, false
	}
	channel = q.ring[q.head]
	q.head = q.wrap(q.head + 1)
	q.size--
	q.enqueued[channel] = false
	return channel, true
}

// remove takes a channel out wherever it is.
func (q *readyQueue) remove(channel int) {
	if !q.enqueued[channel] {
		return
	}
	q.enqueued[channel] = false
	kept := 0
	for i := range q.size {
		if c := q.ring[q.wrap(q.head+i)]; c != channel {
			q.ring[q.wrap(q.head+kept)] = c
			kept++
		}
	}
	q.size = kept
}

func (q *readyQueue) wrap(i int) int {
	if i >= len(q.ring) {
		return i - len(q.ring)
	}
	return i
}
