package registry

import (
	"container/list"
	"context"
	"fmt"
	"time"

	"shuffled/shuffle"
)

// A ManagerConfig describes a ResultPartitionManager. The zero value of every
// field is a usable default.
type ManagerConfig struct {
	// Retention is how long a finished partition is kept while nobody reads it;
	// 10 minutes by default.
	Retention time.Duration
	// Tombstones is how many ended partitions are remembered, TombstonesPerUID how
	// many of one user; 131,072 and a quarter of it by default, which take some 130
	// bytes each. EpitaphBytes is what their names, causes and lists of readers may
	// take beside; 4 MiB by default, a quarter for a user.
	Tombstones, TombstonesPerUID int
	EpitaphBytes                 int
	// Refused, if set, is told of attempts to read what one may not. It is called
	// like the methods of a PartitionHost.
	Refused func(Refusal)
	// Now is the clock; time.Now by default.
	Now func() time.Time
}

// A ResultPartitionManager is the daemon's registry: it knows every partition by
// its owner and its id, brings consumers to it that may come before it exists, and
// remembers what became of the partitions that ended. It knows nothing of sockets and
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
	partitions map[PartitionKey]*HostedPartition // those that have not ended
	all        partitionOrder                    // whose memory is not given back
	registered uint64
	byID       map[shuffle.PartitionID][]*HostedPartition // those in all
	empty      chan struct{}                              // closed while all is empty
	waiting    map[PartitionKey]*list.List                // of *SubpartitionRequest, first come first
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
		config.Tombstones = 1 << 17
	}
	if config.TombstonesPerUID <= 0 {
		config.TombstonesPerUID = max(1, config.Tombstones/4)
	}
	if config.EpitaphBytes <= 0 {
		config.EpitaphBytes = 4 << 20
	}
	if config.Refused == nil {
		config.Refused = func(Refusal) {}
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	m := &ResultPartitionManager{
		config: config, partitions: make(map[PartitionKey]*HostedPartition),
		byID:  make(map[shuffle.PartitionID][]*HostedPartition),
		empty: make(chan struct{}), waiting: make(map[PartitionKey]*list.List),
		tombstones: newTombstones(config.Tombstones, config.TombstonesPerUID, config.EpitaphBytes),
		earlier:    make(chan struct{}, 1),
	}
	close(m.empty)
	return m
}

// A Registration describes a partition to host.
type Registration struct {
	// Spec is the partition's, validated.
	Spec shuffle.PartitionSpec
	// Producer is who creates it.
	Producer shuffle.Principal
	// Host has its memory.
	Host PartitionHost
	// HoldWhileMapped keeps the memory of the ended partition as long as the
	// producer maps it, even after it has finished.
	HoldWhileMapped bool
}

// Register adds a partition in the state created.
//
// The id is looked up among the partitions of the same user only. It returns
// ErrAlreadyExists while that attempt is there, or an older one that has finished
// and is not to be replaced; an older one that is still produced ends as fenced.
// An attempt that is older than the present one, or not newer than one that has
// ended, is ErrFenced. Both are an AttemptError.
func (m *ResultPartitionManager) Register(r Registration) (*HostedPartition, error) {
	m.mu.Lock()
	defer m.unlock()
	key, attempt := PartitionKey{ID: r.Spec.ID, Owner: r.Producer.UID}, r.Spec.Attempt
	if m.closed {
		return nil, fmt.Errorf("partition %s: partition manager %w", r.Spec.Label(), shuffle.ErrClosed)
	}
	refuse := func(newest uint32, sentinel error, format string, args ...any) error {
		return &shuffle.AttemptError{Partition: key.ID, Attempt: attempt, Next: nextAttempt(newest),
			Err: fmt.Errorf("partition %s, attempt %d: %w: %s%s",
				r.Spec.Label(), attempt, sentinel, fmt.Sprintf(format, args...), advice(newest))}
	}
	present := m.partitions[key]
	switch {
	case present == nil:
		if stone := m.tombstones.find(key); stone != nil && attempt <= stone.attempt {
			return nil, refuse(stone.attempt, shuffle.ErrFenced, "attempt %d has ended (%s)", stone.attempt,
				stone.state)
		}
	case attempt < present.spec.Attempt:
		return nil, refuse(present.spec.Attempt, shuffle.ErrFenced, "attempt %d is %s", present.spec.Attempt,
			present.state)
	case attempt == present.spec.Attempt:
		return nil, refuse(attempt, shuffle.ErrAlreadyExists, "it is %s", present.state)
	case present.finished && !r.Spec.Replace:
		return nil, refuse(present.spec.Attempt, shuffle.ErrAlreadyExists,
			"attempt %d is finished and can be read; Replace takes its place", present.spec.Attempt)
	}
	p := &HostedPartition{
		manager: m, spec: r.Spec, access: newAccess(&r.Spec), producer: r.Producer, host: r.Host,
		created: m.config.Now(), holdWhileMapped: r.HoldWhileMapped,
		users: r.Spec.Subpartitions + 1, sub: make([]hostedSubpartition, r.Spec.Subpartitions),
	}
	p.spec.Token = "" // access has what is needed of it
	m.partitions[key] = p
	if m.all.n == 0 {
		m.empty = make(chan struct{})
	}
	m.registered++
	p.serial = m.registered
	m.all.add(p)
	m.byID[key.ID] = append(m.byID[key.ID], p)
	if present != nil {
		// The newer one is there already, so that those who wait go on waiting.
		present.end(shuffle.PartitionFenced, fmt.Sprintf("attempt %d was created", attempt))
	} else {
		m.serveWaiting(key) // those for whom it is too new
	}
	return p, nil
}

// advice says which attempt can be created after the newest.
func advice(newest uint32) string {
	if next := nextAttempt(newest); next != 0 {
		return fmt.Sprintf("; the next attempt is %d", next)
	}
	return "; no attempt is left, take another id"
}

// NextAttempt returns the lowest attempt of a user's partition that can be
// created. If there is none any more, it is an AttemptError of ErrFenced.
func (m *ResultPartitionManager) NextAttempt(id shuffle.PartitionID, owner uint32) (uint32, error) {
	m.mu.Lock()
	defer m.unlock()
	key := PartitionKey{ID: id, Owner: owner}
	newest := uint32(0)
	if p := m.partitions[key]; p != nil {
		newest = p.spec.Attempt
	} else if stone := m.tombstones.find(key); stone != nil {
		newest = stone.attempt
	} else {
		return 0, nil
	}
	next := nextAttempt(newest)
	if next == 0 {
		return 0, &shuffle.AttemptError{Partition: id, Attempt: newest,
			Err: fmt.Errorf("partition %s: %w: attempt %d has been%s", id, shuffle.ErrFenced, newest, advice(newest))}
	}
	return next, nil
}

// serve decides a request if it can be decided now. The lock is held.
func (m *ResultPartitionManager) serve(r *SubpartitionRequest) bool {
	c := &r.claim
	if p := m.partitions[c.key()]; p != nil {
		switch {
		case !p.access.allows(c.Owner, c.Who, c.Token):
			m.refuse(r, p.spec.Name)
			return false
		case p.spec.Attempt < c.MinAttempt:
			return false
		case c.Exact && p.spec.Attempt > c.MinAttempt:
			m.fail(r, tooNew(c, &p.spec, p.state))
			return true
		case p.state == shuffle.PartitionCreated:
			return false
		}
		m.attach(r, p)
		return true
	}
	stone := m.tombstones.find(c.key())
	switch {
	case stone == nil || stone.attempt < c.MinAttempt:
		return false
	case !stone.allows(c.Who, c.Token):
		m.refuse(r, "")
		return false
	case c.Exact && stone.attempt > c.MinAttempt:
		m.fail(r, tooNew(c, &shuffle.PartitionSpec{ID: c.Partition, Attempt: stone.attempt}, stone.state))
	default:
		m.fail(r, stone.err())
	}
	return true
}

// tooNew is the error of a claim to an attempt that a newer one has replaced.
func tooNew(c *SubpartitionClaim, newest *shuffle.PartitionSpec, state shuffle.PartitionState) error {
	return &shuffle.AttemptError{
		Partition: c.Partition, Attempt: c.MinAttempt, Next: nextAttempt(newest.Attempt),
		Err: fmt.Errorf("partition %s, attempt %d: %w: attempt %d is %s", newest.Label(), c.MinAttempt,
			shuffle.ErrFenced, newest.Attempt, state),
	}
}

// refuse reports, once, that a consumer may not read what is there.
func (m *ResultPartitionManager) refuse(r *SubpartitionRequest, name string) {
	if r.refused {
		return
	}
	r.refused = true
	refusal := Refusal{Who: r.claim.Who, Action: "read", Partition: r.claim.Partition, Name: name, Owner: r.claim.Owner}
	m.tell(func() { m.config.Refused(refusal) })
}

// serveWaiting decides the requests that wait for a partition of which there is
// news. The lock is held.
func (m *ResultPartitionManager) serveWaiting(key PartitionKey) {
	waiting := m.waiting[key]
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
	sub := r.claim.Subpartition
	if sub < 0 || sub >= len(p.sub) {
		m.fail(r, fmt.Errorf("partition %s: subpartition %d, want 0 to %d: %w", p.spec.Label(), sub, len(p.sub)-1,
			shuffle.ErrInvalidArgument))
		return
	}
	s := &p.sub[sub]
	if s.state != subpartitionIdle {
		m.fail(r, &shuffle.AttemptError{
			Partition: p.spec.ID, Attempt: p.spec.Attempt, Next: nextAttempt(p.spec.Attempt),
			Err: fmt.Errorf("partition %s, attempt %d: subpartition %d %s: %w", p.spec.Label(), p.spec.Attempt, sub,
				whyTaken[s.state], shuffle.ErrAlreadyConsumed),
		})
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
	for m.all.n > 0 {
		p := m.all.blocks[0][0]
		p.state = shuffle.PartitionReleased
		p.failure = fmt.Errorf("partition %s: partition manager %w", p.spec.Label(), shuffle.ErrClosed)
		p.drop(true)
	}
	clear(m.partitions)
}

// nextAttempt returns the attempt that follows one, 0 if none does.
func nextAttempt(attempt uint32) uint32 { return attempt + 1 }
