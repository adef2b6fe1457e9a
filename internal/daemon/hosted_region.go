package daemon

import (
	"fmt"
	"sort"
	"sync"
	"sync/atomic"

	"shuffled/internal/daemon/registry"
	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// maxGrantPerMessage bounds the segments of a notification, since all of them are
// backed with memory before; the rest follows in another.
const maxGrantPerMessage = 1024

// A hostedRegion is the daemon's side of a partition: its region and doorbell,
// its grant of segments, and the session of its producer. It is the
// shuffle.PartitionHost of the registry and the pool.GrantListener of its grant.
//
// The producer asks for segments and gets as many, never more. No segment is backed
// with memory before it does.
type hostedRegion struct {
	server   *Server
	uid      uint32
	pid      int32
	spec     shuffle.PartitionSpec
	layout   memseg.PartitionLayout
	required int // segments
	hosted   *registry.HostedPartition
	creation *creation

	session   atomic.Pointer[session] // of the producer, nil once it is gone
	mappedAt  atomic.Int64            // when the producer mapped it, 0 before
	announced atomic.Bool             // the producer knows of the partition
	stopped   atomic.Bool             // the producer has said that it writes no more

	mu       sync.Mutex // guards what follows: each step changes several of them
	use      account    // booked in the ledger
	memory   regionMemory
	grant    *pool.Grant // nil until the partition has asked to be admitted
	flow     segmentFlow
	over     error // why no more segments are wanted, nil before
	size     int   // of the pool, as the producer knows it
	posted   bool  // an update is on its way
	starved  bool  // the kernel had no memory; waits for retry
	dropped  bool
	ranges   hugeRanges
	books    regionBooks
	counters partitionCounters
}

// newHostedRegion plans the region of a partition and books it. It is given back by
// free until it is registered, and by Drop afterwards.
func (s *Server) newHostedRegion(session *session, spec shuffle.PartitionSpec) (*hostedRegion, error) {
	r := &hostedRegion{server: s, uid: session.who.UID, pid: session.who.PID, spec: spec}
	r.session.Store(session)
	if err := r.plan(); err != nil {
		r.free(false)
		return nil, fmt.Errorf("create partition %s: %w", spec.Label(), describeShortage(err))
	}
	return r, nil
}

// plan does so step by step; free undoes as far as it came.
func (r *hostedRegion) plan() (err error) {
	s := r.server
	required, most := s.poolBounds(r.spec)
	r.layout, err = memseg.NewPartitionLayout(uint32(r.spec.Type), r.spec.ID, 0, r.spec.Subpartitions, most,
		s.config.SegmentSize)
	if err != nil {
		return err
	}
	r.fitMemory(required)
	r.layout.Epoch = s.newEpoch(r)
	r.layout.FirstOrdinal = s.config.FirstOrdinal
	use := account{
		partitions: 1, control: r.controlBytes(), memory: r.layout.RegionSize(),
		heap:     partitionHeap + subpartitionHeap*int64(r.layout.Subpartitions),
		promised: int64(required) * int64(s.config.SegmentSize),
	}
	if err := s.ledger.reserve(r.uid, use); err != nil {
		return err
	}
	r.use = use
	r.required = required
	r.memory.layout = &r.layout
	return nil
}

// poolBounds returns the smallest and the largest size of a partition's pool.
func (s *Server) poolBounds(spec shuffle.PartitionSpec) (required, most int) {
	perChannel, floating := spec.BuffersPerChannel, spec.FloatingBuffers
	if perChannel == 0 {
		perChannel = pool.DefaultBuffersPerChannel
	}
	if floating == 0 {
		target := s.config.FloatingTarget
		if target == 0 {
			target = pool.DefaultFloatingBytes(spec.Subpartitions)
		}
		floating = pool.FloatingBuffers(s.config.SegmentSize, target)
	}
	required, most = pool.PartitionBounds(spec.Type.IsBounded(), spec.Subpartitions, perChannel, floating)
	total := int(s.config.Memory / int64(s.config.SegmentSize))
	return required, max(min(most, total), 1)
}

// fitMemory makes the region smaller until what its user may still reserve holds
// it, but not below what it requires: then reserving it fails with the name of
// the limit.
func (r *hostedRegion) fitMemory(required int) {
	room := r.server.ledger.memoryRoom(r.uid)
	if r.layout.RegionSize() <= room {
		return
	}
	layout := func(segments int) memseg.PartitionLayout {
		l := r.layout
		smaller, err := memseg.NewPartitionLayout(l.Type, l.ID, 0, l.Subpartitions, segments, l.SegmentSize)
		if err != nil {
			return l // cannot be: it is smaller than one that can
		}
		return smaller
	}
	beyond := sort.Search(r.layout.Segments, func(segments int) bool {
		l := layout(max(segments, 1))
		return l.RegionSize() > room
	})
	r.layout = layout(max(required, beyond-1))
}

// controlBytes is what the region needs from the beginning. Markers are backed and
// booked together with their segments.
func (r *hostedRegion) controlBytes() int64 {
	return queueBytes(&r.layout) + memseg.DoorbellSize(r.layout.Subpartitions)
}

// createGrant asks for the segments that the partition requires. If they are not
// there it waits, unless the server refuses at once, and admitted is called once they
// are, possibly before createGrant has returned.
func (r *hostedRegion) createGrant(admitted func()) (waits bool, err error) {
	spec := pool.GrantSpec{Required: r.required, Max: max(r.layout.Segments, r.required), User: r.uid,
		MayUseKept: isPrivileged(r.uid)}
	var grant *pool.Grant
	if r.server.config.AdmissionTimeout < 0 {
		grant, err = r.server.pool.CreateGrant(spec, r)
	} else {
		grant, waits, err = r.server.pool.QueueGrant(spec, r, func(g *pool.Grant) {
			_ = r.setGrant(g)
			admitted()
		})
	}
	if err != nil {
		return false, err
	}
	if over := r.setGrant(grant); over != nil && waits && grant.GiveUp() != nil {
		return false, over
	}
	return waits, nil
}

// setGrant returns why the partition is over, or nil.
func (r *hostedRegion) setGrant(grant *pool.Grant) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.grant = grant
	return r.over
}

// createMemory makes the shared objects of a partition that was admitted, and backs
// what is needed at once.
func (r *hostedRegion) createMemory() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.over != nil:
		return r.over
	case r.dropped:
		return fmt.Errorf("the daemon is %w", shuffle.ErrClosed)
	}
	r.flow.set = pool.NewSegmentSet(r.layout.Segments)
	if r.server.config.HugePages != NeverHugePages {
		r.ranges = newHugeRanges(&r.layout)
	}
	r.size = r.grant.Size()
	return r.memory.create(r.server, r.spec.ID.String())
}

// Drop implements shuffle.PartitionHost.
func (r *hostedRegion) Drop(readerMaps bool) { r.free(readerMaps) }

// free gives everything back that nobody holds, and leaves the rest to the books.
// The memory of a reader that vanished with its connection, and may be reading, is
// not taken away before.
func (r *hostedRegion) free(readerMaps bool) {
	r.mu.Lock()
	if r.dropped {
		r.mu.Unlock()
		return
	}
	r.server.statistics.ended(r.readStats())
	r.dropped = true
	m := &r.memory
	if m.control != nil {
		_ = m.control.Close()
	}
	excess := r.books.excess
	left := &leftBehind{
		name: "partition " + r.spec.ID.String(), uid: r.uid, pid: r.pid, memfd: m.memfd, doorbell: m.doorbell,
		use: r.use, grant: r.grant,
	}
	if m.memfd != nil {
		left.takes, left.stays = r.whatMayBeTaken(readerMaps)
		left.control = r.layout.SegmentOffset(0)
	}
	r.mu.Unlock()

	s := r.server
	if excess > 0 {
		s.books.book(func(t *bookTotals) { t.excess -= excess })
	}
	s.mu.Lock()
	delete(s.regions, r.layout.Epoch)
	s.mu.Unlock()
	s.books.leave(left)
}

// whatMayBeTaken returns the parts of a dropped region whose memory is nobody's any
// more, and how many bytes the rest may have. The lock is held.
func (r *hostedRegion) whatMayBeTaken(readerMaps bool) (takes []byteRange, stays int64) {
	switch {
	case r.server.config.Isolation == StrictIsolation:
		return nil, r.allowedBytes()
	case !readerMaps:
		// The header before the rest: who still reads looks at it, see memseg.Presence.
		return []byteRange{{0, pageSize}, {pageSize, r.memory.memfd.Size()}}, 0
	}
	r.flow.set.EachFree(func(first, last int) bool {
		takes = append(takes, byteRange{r.layout.SegmentOffset(first), r.layout.SegmentOffset(last + 1)})
		return true
	})
	return takes, r.allowedBytes()
}
