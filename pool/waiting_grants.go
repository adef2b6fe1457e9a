package pool

import "container/heap"

// waitingGrants has the grants that wish for segments and are small enough to get
// some: those of the user who has least first, and of one user in the order in which
// they began to wait. One that has its size waits elsewhere: it comes back here when its
// size grows or when it has recycled something. So serving costs by what there is to
// give, not by who waits.
type waitingGrants struct {
	users placedHeap[*user] // that have any
	begun uint64
}

// begin gives a grant its turn.
func (w *waitingGrants) begin(g *Grant) {
	w.begun++
	g.waitsSince = w.begun
}

// first returns the grant whose turn it is, or nil.
func (w *waitingGrants) first() *Grant {
	if len(w.users) == 0 {
		return nil
	}
	return w.users[0].waiting[0]
}

// update puts a grant in or out after its wish, its size or what it holds has
// changed.
func (w *waitingGrants) update(g *Grant) {
	g.user.waiting.update(g, g.wish > 0 && g.held < g.size)
	w.updateUser(g.user)
}

// updateUser puts a user in its place after a change of what it has.
func (w *waitingGrants) updateUser(u *user) { w.users.update(u, len(u.waiting) > 0) }

// placed is what knows its place in a heap, counted from 1; 0 while it is not there.
type placed[T any] interface {
	before(T) bool
	placeIn() *int
}

// A placedHeap has the first of its elements at its root.
type placedHeap[T placed[T]] []T

// update puts x in or out, or where it belongs now.
func (h *placedHeap[T]) update(x T, isIn bool) {
	switch place := *x.placeIn(); {
	case place == 0 && isIn:
		heap.Push(h, x)
	case place > 0 && isIn:
		heap.Fix(h, place-1)
	case place > 0:
		heap.Remove(h, place-1)
	}
}

func (h placedHeap[T]) Len() int           { return len(h) }
func (h placedHeap[T]) Less(i, j int) bool { return h[i].before(h[j]) }
func (h placedHeap[T]) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	*h[i].placeIn(), *h[j].placeIn() = i+1, j+1
}

func (h *placedHeap[T]) Push(x any) {
	element := x.(T)
	*h = append(*h, element)
	*element.placeIn() = len(*h)
}

func (h *placedHeap[T]) Pop() any {
	last := len(*h) - 1
	element := (*h)[last]
	clear((*h)[last:])
	*h = (*h)[:last]
	*element.placeIn() = 0
	return element
}
