package daemon

import (
	"errors"
	"maps"
	"runtime/debug"
	"sync"
	"time"

	"shuffled/memseg"
	"shuffled/pool"
	"shuffled/shuffle"
)

// A Snapshot is what an operator or a metrics exporter sees of a server at one
// moment. Its totals never go back while the server lives.
type Snapshot struct {
	Version     string
	BootID      [16]byte
	Started     time.Time
	Draining    bool
	SegmentSize int

	// Pool counts segments; Bytes of segments are those times SegmentSize.
	Pool pool.NetworkStats
	// ControlBytes is what queues, gates and doorbells take beside the segments.
	ControlBytes int64
	// Memory says where the memory of the budget is.
	Memory MemoryUse
	// BackedBytes is the memory that the kernel holds for all partition regions,
	// their queues included.
	BackedBytes int64
	// HugePageBytes is how much of that lies in huge pages.
	HugePageBytes int64

	// Limits are those that the server keeps.
	Limits Limits
	// HeapBytes is what is booked of the daemon's heap (Limits.HeapMemory).
	HeapBytes int64
	// SendsPutOff counts attempts to send that the kernel had no means for, such as
	// descriptors, and that were repeated.
	SendsPutOff uint64

	Connections, Gates int
	// Partitions has a row for each partition whose memory is held, without
	// rows of its subpartitions, by rising id.
	Partitions []shuffle.PartitionInfo

	Totals Totals
	// Rejects counts what clients were refused, by reason, such as
	// "quota_exceeded"; see RejectReasons.
	Rejects map[string]uint64
	// LimitRejects counts those of them that were because of a limit, by its name;
	// see LimitNames.
	LimitRejects map[string]uint64
}

// MemoryUse divides the memory of the budget, in bytes: all but LeftBehindObjects add
// up to it, unless somebody has taken more than there was.
type MemoryUse struct {
	// Free can be handed out.
	Free int64
	// Granted is with partitions that there are, Ended with those that have ended
	// and whose readers still have them.
	Granted, Ended int64
	// Excess was brought into partitions by touching what had not been granted.
	Excess int64
	// LeftBehind is still held of partitions whose memory was given up.
	LeftBehind int64
	// Earlier is held by the workers of an earlier daemon.
	Earlier int64
	// LeftBehindObjects counts partitions and gates that were given up and that
	// somebody still has mapped or open.
	LeftBehindObjects int
}

// Totals count since the server was started, ended partitions and gates
// included.
type Totals struct {
	PartitionsCreated uint64
	BytesOut          uint64
	BuffersOut        uint64
	Records           uint64
	BackPressured     time.Duration
	// ProducerWakeUps and ConsumerWakeUps count how often one slept and was woken.
	ProducerWakeUps, ConsumerWakeUps uint64
	// ConsumerIdle is how long gates slept.
	ConsumerIdle time.Duration
	// UngrantedBytes is the memory that was ever found in use without having been
	// granted.
	UngrantedBytes uint64
	// CommitFailures counts grants that the kernel had no memory for.
	CommitFailures uint64
	// HeldBack is how long requests of users waited that kept the daemon busy beside
	// others.
	HeldBack time.Duration
}

// regionStats are the counters of one partition.
type regionStats struct {
	bytes, buffers, records, backPressuredNs, wakeUps uint64
}

func (t *Totals) add(s regionStats) {
	t.BytesOut += s.bytes
	t.BuffersOut += s.buffers
	t.Records += s.records
	t.BackPressured += time.Duration(s.backPressuredNs)
	t.ProducerWakeUps += s.wakeUps
}

// statistics are the counters of a server that outlive what they count.
type statistics struct {
	mu           sync.Mutex
	totals       Totals // of what has ended
	reported     Totals // by the last snapshot
	rejects      map[string]uint64
	limitRejects map[string]uint64
	audit        auditThrottle
}

func (s *statistics) partitionCreated() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.PartitionsCreated++
}

func (s *statistics) ended(last regionStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.add(last)
}

func (s *statistics) gateEnded(g *hostedGate) {
	wakeUps, idle, _ := g.readStats() // a gate that cannot be read counts nothing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.ConsumerWakeUps += wakeUps
	s.totals.ConsumerIdle += idle
}

// commitFailed counts a grant without memory.
func (s *statistics) commitFailed() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals.CommitFailures++
}

// rejectReasons gives each reason of a refusal its name in the statistics.
var rejectReasons = []struct {
	name     string
	sentinel error
}{
	{"protocol", shuffle.ErrProtocol},
	{"version_mismatch", shuffle.ErrVersionMismatch},
	{"permission", shuffle.ErrPermission},
	{"quota_exceeded", shuffle.ErrQuotaExceeded},
	{"insufficient_buffers", shuffle.ErrInsufficientBuffers},
	{"no_memory", shuffle.ErrNoMemory},
	{"fenced", shuffle.ErrFenced},
	{"already_exists", shuffle.ErrAlreadyExists},
	{"already_consumed", shuffle.ErrAlreadyConsumed},
	{"partition_not_found", shuffle.ErrPartitionNotFound},
	{"partition_released", shuffle.ErrPartitionReleased},
	{"partition_expired", shuffle.ErrPartitionExpired},
	{"partition_failed", shuffle.ErrPartitionFailed},
	{"producer_lost", shuffle.ErrProducerLost},
	{"invalid_argument", shuffle.ErrInvalidArgument},
	{"closed", shuffle.ErrClosed},
	{"draining", shuffle.ErrDraining},
	{"access_denied", errAccessDenied},
	{"other", nil},
}

// RejectReasons returns the keys that Snapshot.Rejects can have.
func RejectReasons() []string {
	names := make([]string, len(rejectReasons))
	for i, row := range rejectReasons {
		names[i] = row.name
	}
	return names
}

// reject counts what a client was refused.
func (s *statistics) reject(err error) {
	name, limit := "other", limitOf(err)
	for _, row := range rejectReasons {
		if row.sentinel != nil && errors.Is(err, row.sentinel) {
			name = row.name
			break
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rejects == nil {
		s.rejects, s.limitRejects = make(map[string]uint64), make(map[string]uint64)
	}
	s.rejects[name]++
	if limit != "" {
		s.limitRejects[limit]++
	}
}

// Snapshot looks at everything. It reads the words that producers and consumers
// write in shared memory and believes nothing that they cannot be.
func (s *Server) Snapshot() Snapshot {
	if s.check() != nil {
		return Snapshot{}
	}
	use := s.ledger.inUse()
	snapshot := Snapshot{
		Version: s.config.Version, BootID: s.bootID, Started: s.started, Draining: s.draining.Load(),
		SegmentSize: s.config.SegmentSize, Pool: s.pool.Stats(), ControlBytes: use.control,
		HeapBytes: use.heap, SendsPutOff: s.sendsPutOff.Load(),
		Connections: use.connections, Gates: use.gates, Limits: s.config.Limits,
	}
	s.statistics.mu.Lock()
	snapshot.Totals = s.statistics.totals
	snapshot.Rejects = maps.Clone(s.statistics.rejects)
	snapshot.LimitRejects = maps.Clone(s.statistics.limitRejects)
	s.statistics.mu.Unlock()
	held, left := s.books.stats()
	snapshot.Totals.UngrantedBytes = held.taken
	snapshot.Totals.HeldBack = s.paces.totalHeldBack()
	snapshot.BackedBytes = left.backed
	ended := 0
	for _, row := range s.partitions.Rows() {
		r := row.Host.(*hostedRegion)
		if row.HasEnded() {
			ended += r.heldSegments()
		}
		stats := r.fillIn(&row.PartitionInfo)
		snapshot.Totals.add(stats)
		backed, huge := r.backedBytes()
		snapshot.BackedBytes += backed
		snapshot.HugePageBytes += huge
		snapshot.Partitions = append(snapshot.Partitions, row.PartitionInfo)
	}
	s.mu.Lock()
	for _, g := range s.gates {
		wakeUps, idle, _ := g.readStats() // a gate that cannot be read counts nothing
		snapshot.Totals.ConsumerWakeUps += wakeUps
		snapshot.Totals.ConsumerIdle += idle
	}
	s.mu.Unlock()
	snapshot.Totals = s.statistics.report(snapshot.Totals)
	snapshot.Memory = s.memoryUse(ended, held, left)
	return snapshot
}

// memoryUse divides the budget; ended is how many segments ended partitions have.
func (s *Server) memoryUse(ended int, held bookTotals, left leftStats) MemoryUse {
	stats, size := s.pool.Stats(), int64(s.config.SegmentSize)
	m := MemoryUse{
		Ended: int64(ended) * size, Excess: held.excess, LeftBehind: int64(left.segments)*size + held.left,
		Earlier: held.earlier, LeftBehindObjects: left.objects,
	}
	m.Granted = max(0, int64(stats.Used-ended-left.segments)*size)
	m.Free = max(0, int64(stats.Total)*size-m.Granted-m.Ended-m.Excess-m.LeftBehind-m.Earlier)
	return m
}

// report makes totals never go back: what ended between the two looks of a
// snapshot was counted by neither.
func (s *statistics) report(now Totals) Totals {
	s.mu.Lock()
	defer s.mu.Unlock()
	last := s.reported
	s.reported = Totals{
		PartitionsCreated: max(now.PartitionsCreated, last.PartitionsCreated),
		BytesOut:          max(now.BytesOut, last.BytesOut), BuffersOut: max(now.BuffersOut, last.BuffersOut),
		Records: max(now.Records, last.Records), BackPressured: max(now.BackPressured, last.BackPressured),
		ProducerWakeUps: max(now.ProducerWakeUps, last.ProducerWakeUps),
		ConsumerWakeUps: max(now.ConsumerWakeUps, last.ConsumerWakeUps),
		ConsumerIdle:    max(now.ConsumerIdle, last.ConsumerIdle),
		CommitFailures:  max(now.CommitFailures, last.CommitFailures),
		UngrantedBytes:  max(now.UngrantedBytes, last.UngrantedBytes), HeldBack: max(now.HeldBack, last.HeldBack),
	}
	return s.reported
}

func (r *hostedRegion) backedBytes() (all, huge int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dropped || r.memory.memfd == nil {
		return 0, 0
	}
	all, _ = r.memory.memfd.BackedBytes()
	return all, r.ranges.bytes()
}

// fillIn adds what the region knows to a row of the registry. It returns the
// counters as far as they are not among those of ended partitions.
func (r *hostedRegion) fillIn(info *shuffle.PartitionInfo) regionStats {
	r.mu.Lock()
	defer r.mu.Unlock()
	stats := r.readStats()
	info.BytesOut, info.BuffersOut, info.Records = stats.bytes, stats.buffers, stats.records
	info.BackPressured, info.WakeUps = time.Duration(stats.backPressuredNs), stats.wakeUps
	info.PoolRequired, info.PoolMax, info.SegmentsHeld = r.required, r.layout.Segments, r.flow.withProducer
	if r.grant != nil {
		info.PoolSize = r.grant.Size()
	}
	info.HeldBytes = int64(r.flow.withProducer) * int64(r.layout.SegmentSize)
	if keeper, readers := r.books.keeper(); readers > 0 {
		info.Readers, info.Keeper, info.StillSince = readers, keeper.who, keeper.moved
	}
	if r.dropped {
		return regionStats{}
	}
	if r.mappedAt.Load() == 0 {
		return stats
	}
	most := boundsOf(r.age())
	for i := range info.SubpartitionInfo {
		row := &info.SubpartitionInfo[i]
		queue, err := memseg.ReadQueueStats(r.memory.control, &r.layout, row.Index)
		if err != nil {
			return stats
		}
		queue.Published = min(queue.Published, most.events)
		row.BuffersPublished, row.BytesOut = queue.Published, min(queue.Bytes, most.bytes)
		if row.State == "consumed" {
			row.BuffersReleased = queue.Published
		} else if row.GateID != 0 {
			row.BuffersReleased = min(r.server.released(row.GateID, row.Channel, r.layout.FirstOrdinal),
				queue.Published)
		}
	}
	return stats
}

// released reads how far a channel of a gate has released.
func (s *Server) released(gate uint64, channel int, firstOrdinal uint64) (n uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if g := s.gates[gate]; g != nil {
		n, _ = g.released(channel, firstOrdinal) // a gate that cannot be read shows 0
	}
	return n
}

func (g *hostedGate) released(channel int, firstOrdinal uint64) (n uint64, err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "read gate", &err)
	return memseg.NewChannelWords(g.words, &g.layout, channel).Released.Load() - firstOrdinal, nil
}

// readStats looks at the counters of the partition. The lock is held.
func (r *hostedRegion) readStats() regionStats {
	if r.dropped || r.memory.control == nil || r.mappedAt.Load() == 0 {
		return r.counters.last
	}
	now := regionStats{}
	age := r.age()
	most := boundsOf(age)
	words, err := memseg.ReadPartitionStats(r.memory.control, age)
	for i := 0; err == nil && i < r.layout.Subpartitions; i++ {
		var queue memseg.QueueStats
		queue, err = memseg.ReadQueueStats(r.memory.control, &r.layout, i)
		now.bytes += min(queue.Bytes, most.bytes)
		now.buffers += min(queue.Buffers, most.events)
	}
	if err != nil {
		return r.counters.last
	}
	now.records, now.wakeUps = words.Records, words.WakeUps
	if !words.Waiting || r.session.Load() != nil { // the dead wait for nothing
		now.backPressuredNs = uint64(words.BackPressured)
	}
	return r.counters.take(now, r.layout.Subpartitions*r.layout.QueueCapacity, age)
}

// age is how long the producer has been there.
func (r *hostedRegion) age() time.Duration {
	return time.Duration(r.server.config.Now().UnixNano() - r.mappedAt.Load())
}

// readStats looks at the counters of the gate.
func (g *hostedGate) readStats() (wakeUps uint64, idle time.Duration, err error) {
	defer memseg.RecoverFault(debug.SetPanicOnFault(true), "read gate", &err)
	words := memseg.NewGateWords(g.words)
	age := g.session.server.config.Now().Sub(g.created)
	idle, _ = memseg.ReadStopwatch(words.IdleNs, age)
	g.counters.take(words.WakeUps.Load(), uint64(idle), age)
	return g.counters.wakeUps.counted, time.Duration(g.counters.idleNs.counted), nil
}
