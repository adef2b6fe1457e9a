package daemon

import (
	"cmp"
	"fmt"
	"slices"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// request asks the grant for what the producer has asked for and nobody has
// promised yet. The lock is held.
func (r *hostedRegion) request() {
	need := r.asked - r.stock - r.wished
	if need <= 0 || r.dropped || r.starved || r.over != nil {
		return
	}
	// What exceeds the maximum the grant would forget.
	need = min(need, r.layout.Segments-r.handed-r.stock-r.wished-r.leaving)
	if need <= 0 {
		return
	}
	got := r.grant.Request(need)
	r.stock += got
	r.wished += need - got
}

// handOver takes up to limit segments out of the stock and backs them with
// memory. If the kernel has none, they are still in stock. The lock is held.
func (r *hostedRegion) handOver(limit int) ([]int, error) {
	segments := r.segments.Take(min(r.stock, r.asked, limit))
	if len(segments) == 0 {
		return nil, nil
	}
	for _, span := range ipc.EncodeSegments(segments) {
		if err := r.commit(int(span.First), int(span.Last)); err != nil {
			r.uncommit(segments) // those before
			_ = r.segments.Return(segments)
			return nil, err
		}
	}
	r.noteHanded(segments)
	r.books.most = max(r.books.most, segments[len(segments)-1]+1)
	r.handed += len(segments)
	r.asked -= len(segments)
	r.stock -= len(segments)
	return segments, nil
}

// commit backs segments and their markers.
func (r *hostedRegion) commit(first, last int) error {
	start, end := r.layout.SegmentOffset(first), r.layout.SegmentOffset(last+1)
	if err := r.server.commit(r.memfd, start, end-start); err != nil {
		return err
	}
	start, end = r.layout.MarkerOffset(first), r.layout.MarkerOffset(last+1)
	if err := r.server.commit(r.memfd, start, end-start); err != nil {
		return err
	}
	r.bookMarkers(start, end)
	return nil
}

// bookMarkers books the pages of markers that were backed just now. They are not
// given back before the region is. No limit refuses them: there is at most one for each
// segment, and where there are many segments one for every 64.
func (r *hostedRegion) bookMarkers(start, end int64) {
	first := r.queueBytes() / pageSize
	more := account{}
	for page := max(start/pageSize, first); page*pageSize < end; page++ {
		for int64(len(r.markers)) <= page-first {
			r.markers = append(r.markers, false)
		}
		if !r.markers[page-first] {
			r.markers[page-first] = true
			more.control += pageSize
		}
	}
	if more != (account{}) {
		r.use.add(more, 1)
		r.server.ledger.book(r.uid, more)
	}
}

// want adds to what the producer has asked for.
func (r *hostedRegion) want(count int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := 2 * r.layout.Segments; count > limit-r.asked {
		return fieldError("segments_wanted.count", count, fmt.Sprintf("at most %d with the %d outstanding ones", limit, r.asked), shuffle.ErrProtocol)
	}
	if r.dropped || r.over != nil {
		return nil
	}
	r.asked += count
	r.request()
	r.post()
	return nil
}

// takeBack takes segments from the producer. Ones that it does not have are a
// protocol violation.
func (r *hostedRegion) takeBack(ranges []*controlpb.SegmentRange) error {
	segments, err := ipc.DecodeSegments("segments_returned.segments", ranges, r.layout.Segments)
	if err != nil {
		return err
	}
	leaving, err := r.unhand(segments)
	if err == nil && leaving > 0 {
		r.recycle(leaving)
	}
	return err
}

// recycle gives n segments back to the grant, which were counted as leaving. The
// lock is not held: the pool may call this region or others.
func (r *hostedRegion) recycle(n int) {
	_ = r.grant.Recycle(n) // refused only when the partition has ended meanwhile
	r.mu.Lock()
	defer r.mu.Unlock()
	r.leaving -= n
	if need := r.asked - r.stock - r.wished; need > 0 {
		r.request()
		r.post()
	}
}

// unhand counts segments as free, and gives their memory to the kernel. It returns
// how many are leaving for the grant: none in strict isolation, where the memory
// stays the region's and so do they.
func (r *hostedRegion) unhand(segments []int) (leaving int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped {
		return 0, nil
	}
	if r.books.shrunk { // which may have taken them back already
		segments = slices.DeleteFunc(segments, func(segment int) bool { return !r.segments.IsTaken(segment) })
	}
	if err := r.segments.Return(segments); err != nil {
		return 0, fmt.Errorf("segments_returned.segments: %w: %w", err, shuffle.ErrProtocol)
	}
	r.noteReturned(segments)
	r.handed -= len(segments)
	if r.server.config.Isolation == StrictIsolation {
		r.stock += len(segments)
		r.post()
		return 0, nil
	}
	r.leaving += len(segments)
	r.uncommit(segments)
	return len(segments), nil
}

// recyclable is how many segments in stock can be given back to the pool: those
// whose memory the kernel does not keep for the region. The lock is held.
func (r *hostedRegion) recyclable() int {
	if r.server.config.Isolation == DefaultIsolation {
		return r.stock
	}
	return max(0, r.stock-(r.books.most-r.handed))
}

// uncommit gives the memory of segments to the kernel, if the region lets it go.
func (r *hostedRegion) uncommit(segments []int) {
	if r.server.config.Isolation == StrictIsolation {
		return
	}
	for _, span := range ipc.EncodeSegments(segments) {
		start, end := r.layout.SegmentOffset(int(span.First)), r.layout.SegmentOffset(int(span.Last)+1)
		if err := r.memfd.Punch(start, end-start); err != nil {
			r.server.log.Warn("give memory back", "partition", r.spec.ID, "error", err)
		}
	}
}

// SizeChanged implements pool.GrantListener. A producer is told at once if it has to
// give something back, or would ask for more if it knew that it may; otherwise with the
// next segments that it asks for. With many partitions, most of them are in neither
// case.
func (r *hostedRegion) SizeChanged() {
	if !r.told.Load() {
		return // it may be about to be created, which takes a while
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	size := r.grant.Size()
	mustReturn := r.handed+r.stock > size
	mayAsk := size > r.size && r.handed+r.asked >= r.size
	if mustReturn || mayAsk {
		r.post()
	}
}

// Granted implements pool.GrantListener.
func (r *hostedRegion) Granted(n int) {
	r.mu.Lock()
	r.wished -= n
	if r.over != nil {
		r.leaving += n
		r.mu.Unlock()
		r.recycle(n)
		return
	}
	r.stock += n
	r.post()
	r.mu.Unlock()
}

// endGrant gives back what the partition was promised and what its producer has not
// got yet: it wants no more segments, for the reason given. What it has stays charged
// until it comes back.
func (r *hostedRegion) endGrant(reason error) {
	r.mu.Lock()
	if r.over != nil || r.dropped || r.grant == nil {
		r.over = cmp.Or(r.over, reason)
		r.mu.Unlock()
		return
	}
	r.over = reason
	grant, stock := r.grant, r.recyclable()
	r.asked = 0
	r.stock -= stock
	r.leaving += stock
	r.mu.Unlock()
	grant.Destroy()
	r.recycle(stock)
}

// start lets the producer hear of its pool; it has been told of the partition.
func (r *hostedRegion) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.told.Store(true)
	r.post()
}

// post has the producer's session send an update when its turn comes: memory is
// not backed before somebody is about to hear of it. The lock is held.
func (r *hostedRegion) post() {
	session := r.session.Load()
	if !r.told.Load() || r.posted || r.dropped || session == nil {
		return
	}
	r.posted = true
	session.notifyFunc(func() (msg *controlpb.ServerMessage, fds ipc.FDs, err error) {
		session.works(func() { msg, fds, err = r.update() })
		return msg, fds, err
	})
}

// update makes the notification of a new size and of segments that the producer
// has asked for; nil if there is nothing to tell.
func (r *hostedRegion) update() (*controlpb.ServerMessage, ipc.FDs, error) {
	resized, excess := r.makeUpdate()
	if excess > 0 {
		r.recycle(excess)
	}
	if resized == nil {
		return nil, nil, nil
	}
	return &controlpb.ServerMessage{Body: &controlpb.ServerMessage_PoolResized{PoolResized: resized}}, nil, nil
}

// makeUpdate also returns how many segments to give back to the pool: those in
// stock for which the kernel has no memory, and those above the size.
func (r *hostedRegion) makeUpdate() (resized *controlpb.PoolResized, excess int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.posted = false
	if r.dropped {
		return nil, 0
	}
	size := r.grant.Size()
	r.request()
	excess = max(0, min(r.recyclable(), r.handed+r.stock-size))
	r.stock -= excess
	segments, err := r.handOver(maxGrantPerMessage)
	if err != nil {
		unbacked := r.recyclable()
		excess += unbacked
		r.stock -= unbacked
		r.starve(err)
	}
	r.leaving += excess
	if len(segments) == 0 && size == r.size {
		return nil, excess
	}
	r.size = size
	if r.stock > 0 && r.asked > 0 {
		r.post()
	}
	return &controlpb.PoolResized{Epoch: r.layout.Epoch, PoolSize: uint32(size), Granted: ipc.EncodeSegments(segments)}, excess
}

// starve makes the region ask again after a while. The lock is held.
func (r *hostedRegion) starve(err error) {
	r.starved = true
	s := r.server
	s.statistics.commitFailed()
	s.throttle.Warn(s.log, "no memory for a grant", "partition", r.spec.ID, "error", err)
	s.mu.Lock()
	s.starved = append(s.starved, r)
	s.mu.Unlock()
}

// retry asks again.
func (r *hostedRegion) retry() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.starved = false
	r.request()
	r.post()
}
