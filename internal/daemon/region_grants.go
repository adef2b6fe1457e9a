package daemon

import (
	"cmp"
	"fmt"
	"slices"

	"shuffled/ipc"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// request asks the grant for what the producer has requested and nobody has
// promised yet. The lock is held.
func (r *hostedRegion) request() {
	if r.dropped || r.starved || r.over != nil {
		return
	}
	if n := r.flow.toAsk(r.layout.Segments); n > 0 {
		r.flow.asked(n, r.grant.Request(n))
	}
}

// handOver takes up to limit segments out of the stock and backs them with
// memory. If the kernel has none, they are still in stock. The lock is held.
func (r *hostedRegion) handOver(limit int) ([]int, error) {
	segments := r.flow.takeOut(limit)
	if len(segments) == 0 {
		return nil, nil
	}
	for _, span := range ipc.EncodeSegments(segments) {
		if err := r.commit(int(span.First), int(span.Last)); err != nil {
			r.uncommit(segments) // those before
			r.flow.putBack(segments)
			return nil, err
		}
	}
	if r.ranges.handedOver(segments) {
		r.server.queueForHugePages(r)
	}
	r.books.most = max(r.books.most, segments[len(segments)-1]+1)
	r.flow.handedOver(len(segments))
	return segments, nil
}

// commit backs segments and their markers, and books the pages of markers that were
// backed just now. No limit refuses them: there is at most one for each segment, and where
// there are many segments one for every 64.
func (r *hostedRegion) commit(first, last int) error {
	markers, err := r.memory.commit(r.server.commit, first, last)
	if markers > 0 {
		more := account{control: markers}
		r.use.add(more, 1)
		r.server.ledger.book(r.uid, more)
	}
	return err
}

// want adds to what the producer has asked for.
func (r *hostedRegion) want(count int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if limit := 2 * r.layout.Segments; count > limit-r.flow.requested {
		return fieldError("segments_wanted.count", count, fmt.Sprintf("at most %d with the %d outstanding ones", limit,
			r.flow.requested), shuffle.ErrProtocol)
	}
	if r.dropped || r.over != nil {
		return nil
	}
	r.flow.requested += count
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
	returning, err := r.release(segments)
	if err == nil && returning > 0 {
		r.recycle(returning)
	}
	return err
}

// recycle gives n segments back to the grant, which were counted as returning. The
// lock is not held: the pool may call this region or others.
func (r *hostedRegion) recycle(n int) {
	_ = r.grant.Recycle(n) // refused only when the partition has ended meanwhile
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flow.returning -= n
	if r.flow.lack() > 0 {
		r.request()
		r.post()
	}
}

// release counts segments of the producer as free, and gives their memory to the kernel.
// It returns how many go back to the grant: none in strict isolation, where the memory
// stays the region's and so do they.
func (r *hostedRegion) release(segments []int) (returning int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped {
		return 0, nil
	}
	if r.books.shrunk { // which may have taken them back already
		segments = slices.DeleteFunc(segments, func(segment int) bool { return !r.flow.set.IsTaken(segment) })
	}
	if err := r.flow.takeBack(segments); err != nil {
		return 0, fmt.Errorf("segments_returned.segments: %w: %w", err, shuffle.ErrProtocol)
	}
	r.ranges.tookBack(segments)
	if r.server.config.Isolation == StrictIsolation {
		r.flow.stock += len(segments)
		r.post()
		return 0, nil
	}
	r.flow.returning += len(segments)
	r.uncommit(segments)
	return len(segments), nil
}

// recyclable is how many segments in stock can be given back to the pool: those
// whose memory the kernel does not keep for the region. The lock is held.
func (r *hostedRegion) recyclable() int {
	if r.server.config.Isolation == DefaultIsolation {
		return r.flow.stock
	}
	return max(0, r.flow.stock-(r.books.most-r.flow.withProducer))
}

// uncommit gives the memory of segments to the kernel, if the region lets it go.
func (r *hostedRegion) uncommit(segments []int) {
	if r.server.config.Isolation == StrictIsolation {
		return
	}
	for _, span := range ipc.EncodeSegments(segments) {
		if err := r.memory.punch(int(span.First), int(span.Last)); err != nil {
			r.server.log.Warn("give memory back", "partition", r.spec.ID, "error", err)
		}
	}
}

// SizeChanged implements pool.GrantListener. A producer is told at once if it has to
// give something back, or would ask for more if it knew that it may; otherwise with the
// next segments that it asks for. With many partitions, most of them are in neither
// case.
func (r *hostedRegion) SizeChanged() {
	if !r.announced.Load() {
		return // it may be about to be created, which takes a while
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	size := r.grant.Size()
	mustReturn := r.flow.withProducer+r.flow.stock > size
	mayAsk := size > r.size && r.flow.withProducer+r.flow.requested >= r.size
	if mustReturn || mayAsk {
		r.post()
	}
}

// Granted implements pool.GrantListener.
func (r *hostedRegion) Granted(n int) {
	r.mu.Lock()
	r.flow.awaited -= n
	if r.over != nil {
		r.flow.returning += n
		r.mu.Unlock()
		r.recycle(n)
		return
	}
	r.flow.stock += n
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
	r.flow.requested = 0
	r.flow.setAside(stock)
	r.mu.Unlock()
	grant.Destroy()
	r.recycle(stock)
}

// start lets the producer hear of its pool; it has been told of the partition.
func (r *hostedRegion) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.announced.Store(true)
	r.post()
}

// post has the producer's session send an update when its turn comes: memory is
// not backed before somebody is about to hear of it. The lock is held.
func (r *hostedRegion) post() {
	session := r.session.Load()
	if !r.announced.Load() || r.posted || r.dropped || session == nil {
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
	excess = max(0, min(r.recyclable(), r.flow.withProducer+r.flow.stock-size))
	r.flow.setAside(excess)
	segments, err := r.handOver(maxGrantPerMessage)
	if err != nil {
		unbacked := r.recyclable()
		excess += unbacked
		r.flow.setAside(unbacked)
		r.starve(err)
	}
	if len(segments) == 0 && size == r.size {
		return nil, excess
	}
	r.size = size
	if r.flow.stock > 0 && r.flow.requested > 0 {
		r.post()
	}
	return &controlpb.PoolResized{Epoch: r.layout.Epoch, PoolSize: uint32(size), Granted: ipc.EncodeSegments(segments)},
		excess
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
