package pool

import "container/heap"

// waitingGrants has the grants that wish for segments and are small enough to get
// some, in the order in which they began to wait. One that has its size waits
// elsewhere: it comes back here when its size grows or when it has recycled
// something. So serving costs by what there is to give, not by who waits.
type waitingGrants struct {
	queue waitingHeap
	begun uint64
}

// begin gives a grant its turn.
func (w *waitingGrants) begin(g *Grant) {
	w.begun++
	g.waitsSince = w.begun
}

// first returns the grant whose turn it is, or nil.
func (w *waitingGrants) first() *Grant {
	if len(w.queue) == 0 {
		return nil
	}
	return w.queue[0]
}

// update puts a grant in or out after its wish, its size or what it holds has
// changed.
func (w *waitingGrants) update(g *Grant) {
	if g.wish == 0 || g.held >= g.size {
		w.remove(g)
	} else if g.place == 0 {
		heap.Push(&w.queue, g)
	}
}

func (w *waitingGrants) remove(g *Grant) {
	if g.place > 0 {
		heap.Remove(&w.queue, g.place-1)
	}
}

func (w *waitingGrants) clear() {
	for _, g := range w.queue {
		g.place = 0
	}
	w.queue = nil
}

// A waitingHeap has the grant that has waited for longest at its root.
type waitingHeap []*Grant

func (h waitingHeap) Len() int           { return len(h) }
func (h waitingHeap) Less(i, j int) bool { return h[i].waitsSince < h[j].waitsSince }
func (h waitingHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i+1, j+1
}

func (h *waitingHeap) Push(x any) {
	g := x.(*Grant)
	*h = append(*h, g)
	g.place = len(*h)
}

func (h *waitingHeap) Pop() any {
	last := len(*h) - 1
	g := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	g.place = 0
	return g
}
