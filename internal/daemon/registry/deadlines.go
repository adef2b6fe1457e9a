package registry

import (
	"container/heap"
	"time"
)

// A deadline is something to do at a time unless it is taken back before.
type deadline struct {
	at    time.Time
	fire  func()
	index int // in the heap, -1 outside
}

// deadlines are ordered by time. Their owner guards them.
type deadlines struct{ heap deadlineHeap }

func (d *deadlines) add(at time.Time, fire func()) *deadline {
	entry := &deadline{at: at, fire: fire}
	heap.Push(&d.heap, entry)
	return entry
}

// remove takes a deadline back. One that is nil, has fired or was removed is
// left alone.
func (d *deadlines) remove(entry *deadline) {
	if entry != nil && entry.index >= 0 {
		heap.Remove(&d.heap, entry.index)
	}
}

// next returns the time of the earliest deadline.
func (d *deadlines) next() (at time.Time, ok bool) {
	if len(d.heap) == 0 {
		return time.Time{}, false
	}
	return d.heap[0].at, true
}

// fireUntil fires what is due at now.
func (d *deadlines) fireUntil(now time.Time) {
	for len(d.heap) > 0 && !d.heap[0].at.After(now) {
		heap.Pop(&d.heap).(*deadline).fire()
	}
}

type deadlineHeap []*deadline

func (h deadlineHeap) Len() int           { return len(h) }
func (h deadlineHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h deadlineHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *deadlineHeap) Push(x any) {
	entry := x.(*deadline)
	entry.index = len(*h)
	*h = append(*h, entry)
}

func (h *deadlineHeap) Pop() any {
	old := *h
	entry := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	entry.index = -1
	return entry
}
