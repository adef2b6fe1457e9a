package shuffle

import (
	"bytes"
	"container/heap"
	"container/list"
	"context"
	"fmt"
	"slices"
	"time"
)

// A ManagerConfig describes a ResultPartitionManager. The zero value of every
// field is a usable default.
type ManagerConfig struct {
	// Retention is how long a finished partition is kept while nobody reads it;
	// 10 minutes by default.
	Retention time.Duration
	// Tombstones is how many ended partitions are remembered; 65,536 by default.
	Tombstones int
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// A ResultPartitionManager is the daemon's registry: it knows every partition by
// its id, brings consumers to it that may come before it exists, and remembers
// what became of the partitions that ended. It knows nothing of sockets and
// memory: a PartitionHost has those.
//
// All methods may be called from any number of goroutines. Hosts and consumers
// are called with no lock held. After Close, registration and requests fail
// with ErrClosed, and nobody is called any more.
//
// As Flink's class of that name, with the listener for partitions that do not
// exist yet.
type ResultPartitionManager struct {
	announcer // guards what follows

	config     ManagerConfig
	partitions map[PartitionID]*HostedPartition // by id, those that have not ended
	all        map[*HostedPartition]struct{}    // whose memory is not given back
	empty      chan struct{}                    // closed while all is empty
	waiting    map[PartitionID]*list.List       // of *SubpartitionRequest, first come first
	tombstones tombstones
	deadlines  deadlines
	closed     bool
	earlier    chan struct{} // tells Run of an earlier deadline
}

// NewResultPartitionManager returns an empty registry. Run must run for its
// time-outs to happen.
func NewResultPartitionManager(config ManagerConfig) *ResultPartitionManager {
	if config.Retention <= 0 {
		config.Retention = 10 * time.Minute
	}
	if config.Tombstones <= 0 {
		config.Tombstones = 1 << 16
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	m := &ResultPartitionManager{
		config: config, partitions: make(map[PartitionID]*HostedPartition), all: make(map[*HostedPartition]struct{}),
		empty: make(chan struct{}), waiting: make(map[PartitionID]*list.List),
		tombstones: newTombstones(config.Tombstones), earlier: make(chan struct{}, 1),
	}
	close(m.empty)
	return m
}

// A Registration describes a partition to host.
type Registration struct {
	// Spec is the partition's, validated.
	Spec PartitionSpec
	// Producer is who creates it.
	Producer Principal
	// Host has its memory.
	Host PartitionHost
	// HoldWhileMapped keeps the memory of the ended partition as long as the
	// producer maps it, even after it has finished.
	HoldWhileMapped bool
}

// Register adds a partition in the state created.
//
// It returns ErrAlreadyExists while there is one of that id, unless this is a
// newer attempt of one that is not finished and of the same user: then the older
// attempt ends as fenced. An attempt that is older than the present one, or not
// newer than one that has ended, is ErrFenced.
func (m *ResultPartitionManager) Register(r Registration) (*HostedPartition, error) {
	m.mu.Lock()
	defer m.unlock()
	id, attempt := r.Spec.ID, r.Spec.Attempt
	if m.closed {
		return nil, fmt.Errorf("partition %s: partition manager %w", id, ErrClosed)
	}
	if stone := m.tombstones.find(id); stone != nil && attempt <= stone.attempt {
		return nil, fmt.Errorf("partition %s: attempt %d, but attempt %d has ended (%v): %w", id, attempt, stone.attempt, stone.err, ErrFenced)
	}
	if present := m.partitions[id]; present != nil {
		switch {
		case attempt < present.spec.Attempt:
			return nil, fmt.Errorf("partition %s: attempt %d, but attempt %d is %s: %w", id, attempt, present.spec.Attempt, present.state, ErrFenced)
		case attempt == present.spec.Attempt || present.finished || present.producer.UID != r.Producer.UID:
			return nil, fmt.Errorf("partition %s: attempt %d is %s: %w", id, present.spec.Attempt, present.state, ErrAlreadyExists)
		}
		present.end(PartitionFenced, fmt.Errorf("partition %s: attempt %d: %w: attempt %d was created", id, present.spec.Attempt, ErrFenced, attempt))
	}
	p := &HostedPartition{
		manager: m, spec: r.Spec, access: newAccess(r.Producer.UID, r.Spec), producer: r.Producer, host: r.Host,
		created: m.config.Now(), holdWhileMapped: r.HoldWhileMapped,
		users: r.Spec.Subpartitions + 1, sub: make([]hostedSubpartition, r.Spec.Subpartitions),
	}
	m.partitions[id] = p
	if len(m.all) == 0 {
		m.empty = make(chan struct{})
	}
	m.all[p] = struct{}{}
	return p, nil
}

// serve decides a request if it can be decided now. The lock is held.
func (m *ResultPartitionManager) serve(r *SubpartitionRequest) bool {
	if p := m.partitions[r.id]; p != nil && p.access.allows(r.who, r.token) {
		if p.state == PartitionCreated {
			return false
		}
		m.attach(r, p)
		return true
	}
	if stone := m.tombstones.find(r.id); stone != nil && m.partitions[r.id] == nil && stone.access.allows(r.who, r.token) {
		m.fail(r, stone.err)
		return true
	}
	return false
}

// serveWaiting decides the requests that wait for a partition of which there is
// news. The lock is held.
func (m *ResultPartitionManager) serveWaiting(id PartitionID) {
	waiting := m.waiting[id]
	if waiting == nil {
		return
	}
	var next *list.Element
	for e := waiting.Front(); e != nil; e = next {
		next = e.Next()
		if r := e.Value.(*SubpartitionRequest); m.serve(r) {
			r.stopWaiting()
		}
	}
}

func (m *ResultPartitionManager) attach(r *SubpartitionRequest, p *HostedPartition) {
	if r.subpartition < 0 || r.subpartition >= len(p.sub) {
		m.fail(r, fmt.Errorf("partition %s: subpartition %d, want 0 to %d: %w", r.id, r.subpartition, len(p.sub)-1, ErrInvalidArgument))
		return
	}
	s := &p.sub[r.subpartition]
	if s.state != subpartitionIdle {
		m.fail(r, fmt.Errorf("partition %s: subpartition %d is %s: %w", r.id, r.subpartition, subpartitionStates[s.state], ErrAlreadyConsumed))
		return
	}
	s.state, s.request = subpartitionAttached, r
	r.partition = p
	p.attached++
	m.deadlines.remove(p.expiry)
	m.tell(func() { p.host.Attach(r) })
}

func (m *ResultPartitionManager) fail(r *SubpartitionRequest, err error) {
	m.tell(func() { r.consumer.Failed(err) })
}

// addDeadline has fire called with the lock held once the time has passed.
func (m *ResultPartitionManager) addDeadline(after time.Duration, fire func()) *deadline {
	at := m.config.Now().Add(after)
	if next, ok := m.deadlines.next(); !ok || at.Before(next) {
		select {
		case m.earlier <- struct{}{}:
		default:
		}
	}
	return m.deadlines.add(at, fire)
}

// Sweep ends the requests that have waited long enough and the partitions that
// nobody has read for the retention time, as of now, and returns how long there
// is nothing more to do; false means until something happens.
func (m *ResultPartitionManager) Sweep(now time.Time) (pause time.Duration, ok bool) {
	m.mu.Lock()
	defer m.unlock()
	if m.closed {
		return 0, false
	}
	m.deadlines.fireUntil(now)
	at, ok := m.deadlines.next()
	return at.Sub(now), ok
}

// Run sweeps whenever something is due, until ctx ends.
func (m *ResultPartitionManager) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-m.earlier:
		case <-ctx.Done():
			return
		}
		if pause, ok := m.Sweep(m.config.Now()); ok {
			timer.Reset(pause)
		}
	}
}

// Empty returns a channel that is closed when no partition holds memory any
// more. It is about this moment: registering a partition takes another channel.
func (m *ResultPartitionManager) Empty() <-chan struct{} {
	m.mu.Lock()
	defer m.unlock()
	return m.empty
}

// Close forgets everything: all partitions are dropped, whoever uses them,
// and nobody is told. What is shared already stays mapped where it is.
func (m *ResultPartitionManager) Close() {
	m.mu.Lock()
	defer m.unlock()
	if m.closed {
		return
	}
	m.closed = true
	for p := range m.all {
		p.state = PartitionReleased
		p.failure = fmt.Errorf("partition %s: partition manager %w", p.spec.ID, ErrClosed)
		p.drop(false)
	}
	clear(m.partitions)
}

// A HostedInfo is a row of the registry.
type HostedInfo struct {
	PartitionInfo
	Host PartitionHost
}

// Rows returns a row for each partition that exists or whose memory is still
// held, in no order. The host fills in what it knows.
func (m *ResultPartitionManager) Rows() []HostedInfo {
	m.mu.Lock()
	defer m.unlock()
	rows := make([]HostedInfo, 0, len(m.all))
	for p := range m.all {
		rows = append(rows, HostedInfo{p.info(0), p.host})
	}
	return rows
}

// Page returns up to limit rows with ids after one, by rising id, and whether
// there are more: of the partitions that somebody may read, and of their newest
// attempts.
func (m *ResultPartitionManager) Page(after PartitionID, limit int, who Principal) (rows []HostedInfo, more bool) {
	m.mu.Lock()
	defer m.unlock()
	var lowest pageHeap
	newest := make(map[PartitionID]*HostedPartition)
	for p := range m.all {
		if bytes.Compare(p.spec.ID[:], after[:]) <= 0 || !p.access.allows(who, "") {
			continue
		}
		if other := newest[p.spec.ID]; other != nil {
			if p.spec.Attempt > other.spec.Attempt {
				newest[p.spec.ID] = p
			}
			continue
		}
		if len(lowest) == limit && bytes.Compare(p.spec.ID[:], lowest[0][:]) > 0 {
			more = true
			continue
		}
		newest[p.spec.ID] = p
		heap.Push(&lowest, p.spec.ID)
		if len(lowest) > limit {
			delete(newest, heap.Pop(&lowest).(PartitionID))
			more = true
		}
	}
	for _, p := range newest {
		rows = append(rows, HostedInfo{p.info(0), p.host})
	}
	slices.SortFunc(rows, func(a, b HostedInfo) int { return bytes.Compare(a.ID[:], b.ID[:]) })
	return rows, more
}

// A pageHeap has the largest id at its root.
type pageHeap []PartitionID

func (h pageHeap) Len() int           { return len(h) }
func (h pageHeap) Less(i, j int) bool { return bytes.Compare(h[i][:], h[j][:]) > 0 }
func (h pageHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *pageHeap) Push(x any)        { *h = append(*h, x.(PartitionID)) }
func (h *pageHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Row returns the row of the partition with an id, the newest attempt if
// there are several, with up to subpartitions rows of its subpartitions. Without
// one, or if who may not read it, it returns what asking for it would:
// ErrPartitionNotFound or what became of it.
func (m *ResultPartitionManager) Row(id PartitionID, who Principal, subpartitions int) (HostedInfo, error) {
	m.mu.Lock()
	defer m.unlock()
	found := m.partitions[id]
	if found == nil {
		for p := range m.all {
			if p.spec.ID == id && (found == nil || p.spec.Attempt > found.spec.Attempt) {
				found = p
			}
		}
	}
	if found != nil && found.access.allows(who, "") {
		return HostedInfo{found.info(subpartitions), found.host}, nil
	}
	if stone := m.tombstones.find(id); stone != nil && found == nil && stone.access.allows(who, "") {
		return HostedInfo{}, stone.err
	}
	return HostedInfo{}, fmt.Errorf("%w: %s", ErrPartitionNotFound, id)
}
