package registry

import (
	"fmt"
	"slices"
	"time"

	"shuffled/internal/foreigntext"
	"shuffled/shuffle"
)

// A PartitionHost has the memory of a hosted partition and knows its producer.
// Its methods are called one at a time for the whole registry, with no lock
// held, in the order in which things happened. They may call the registry but
// must not block.
type PartitionHost interface {
	// Attach tells consumer and producer that they belong together now: the
	// consumer of r reads the subpartition of r.
	Attach(r *SubpartitionRequest)
	// ConsumerDetached tells the producer that the consumer of a subpartition is
	// gone; consumed is whether it had read to the end.
	ConsumerDetached(subpartition int, consumed bool, reason string)
	// Ended tells the producer that its partition has ended without its doing.
	Ended(err error)
	// Drop gives the memory back. It is called once, after everything else, when
	// nobody is attached to the partition any more and its producer has finished
	// writing. readerMaps says that somebody may be reading nevertheless: a consumer
	// that vanished without giving its subpartition up, or all that were there when
	// the manager was closed.
	Drop(readerMaps bool)
}

// A HostedPartition is the daemon's view of a partition:
//
//	created ──Mapped──▶ running ──Finished─▶ finished ──▶ consumed, expired
//	    └───────┬──────────┘
//	            ├──Failed────────▶ failed
//	            ├──Released──────▶ released   (finished ones too)
//	            ├──ProducerClosed▶ lost
//	            └──a newer attempt─▶ fenced
//
// Its users are its subpartitions and its producer, as in Flink: it is consumed
// when each subpartition was given up by its consumer, whether it had read to
// the end or not, and the producer has finished. The memory of an ended
// partition is given back when all consumers have left it and its producer has
// unmapped it, or has at least finished writing.
//
// All methods may be called from any number of goroutines. After the end they
// return the reason of the end.
type HostedPartition struct {
	manager  *ResultPartitionManager
	spec     shuffle.PartitionSpec
	access   *access
	producer shuffle.Principal
	host     PartitionHost
	created  time.Time
	serial   uint64 // counts registrations
	// holdWhileMapped keeps the memory as long as the producer maps it.
	holdWhileMapped bool

	// The fields below are guarded by the manager's lock.
	state        shuffle.PartitionState
	failure      error // why it ended; its text is bounded
	endedAt      time.Time
	finished     bool
	producerGone bool
	abandoned    bool // a consumer vanished: it may still map the region
	dropped      bool
	withdrawn    bool // by an operator: it is evicted soon
	evicted      bool // whoever has it mapped does not count any more
	traceless    bool // it is forgotten as if it had not been created
	users        int  // subpartitions that are not given up, and the unfinished producer
	attached     int
	sub          []hostedSubpartition
	expiry       *deadline
}

type hostedSubpartition struct {
	request *SubpartitionRequest // while attached
	state   subpartitionState
}

type subpartitionState uint8

const (
	subpartitionIdle subpartitionState = iota
	subpartitionAttached
	subpartitionConsumed
	subpartitionAbandoned
)

var subpartitionStates = [...]string{"idle", "attached", "consumed", "abandoned"}

// whyTaken says why a consumer that comes now cannot have a subpartition in the state.
var whyTaken = [...]string{
	subpartitionAttached:  "has a consumer",
	subpartitionConsumed:  "was read to its end by its consumer",
	subpartitionAbandoned: "had a consumer, which left before the end",
}

// key is what the partition is found by.
func (p *HostedPartition) key() PartitionKey {
	return PartitionKey{ID: p.spec.ID, Owner: p.producer.UID}
}

// StateFor returns the state of the partition, and whether who may read it and so may
// know of it.
func (p *HostedPartition) StateFor(who shuffle.Principal) (state shuffle.PartitionState, may bool) {
	m := p.manager
	m.mu.Lock()
	defer m.unlock()
	return p.state, p.access.allows(p.producer.UID, who, "")
}

// Mapped says that the producer has mapped the partition: consumers that wait for
// it are attached, and others may come. A second call is ErrProtocol.
func (p *HostedPartition) Mapped() error {
	m := p.manager
	m.mu.Lock()
	defer m.unlock()
	if p.state.HasEnded() {
		return p.failure
	}
	if p.state != shuffle.PartitionCreated {
		return fmt.Errorf("partition %s: mapped while it is %s: %w", p.spec.Label(), p.state, shuffle.ErrProtocol)
	}
	p.state = shuffle.PartitionRunning
	m.serveWaiting(p.key())
	return nil
}

// Finished says that end-of-partition is published in every subpartition. A second
// call does nothing, also when the partition was consumed meanwhile: the producer may
// not have heard the answer to the first. One before Mapped is ErrProtocol.
func (p *HostedPartition) Finished() error {
	m := p.manager
	m.mu.Lock()
	defer m.unlock()
	switch {
	case p.finished && (p.state == shuffle.PartitionFinished || p.state == shuffle.PartitionConsumed):
		return nil
	case p.state.HasEnded():
		return p.failure
	case p.state != shuffle.PartitionRunning:
		return fmt.Errorf("partition %s: finished while it is %s: %w", p.spec.Label(), p.state, shuffle.ErrProtocol)
	}
	p.state = shuffle.PartitionFinished
	p.finished = true
	p.users--
	if !p.endIfConsumed() {
		p.expireWhenIdle()
	}
	return nil
}

// Failed says that no more data will come, and why: consumers get
// ErrPartitionFailed with that cause after what is committed. A finished
// partition cannot fail any more: ErrFinished. For one that has ended it does
// nothing.
func (p *HostedPartition) Failed(cause string) error {
	m := p.manager
	m.mu.Lock()
	defer m.unlock()
	if p.state.HasEnded() {
		return nil
	}
	if p.finished {
		return fmt.Errorf("partition %s: fail: %w", p.spec.Label(), shuffle.ErrFinished)
	}
	p.end(shuffle.PartitionFailed, cause)
	return nil
}

// Released says that the producer gives the partition up: consumers that have not reached its end get
// ErrPartitionReleased after what is committed. One that was never mapped is
// forgotten as if it had not been created. For one that has ended it does
// nothing.
func (p *HostedPartition) Released(reason string) {
	m := p.manager
	m.mu.Lock()
	defer m.unlock()
	if p.state.HasEnded() {
		return
	}
	p.end(shuffle.PartitionReleased, reason)
}

// ProducerClosed says that the producer has unmapped the partition, or is no
// more. Unfinished, the partition is lost: its consumers get ErrProducerLost
// after what is committed.
func (p *HostedPartition) ProducerClosed(reason string) {
	m := p.manager
	m.mu.Lock()
	defer m.unlock()
	if p.producerGone {
		return
	}
	p.producerGone = true
	if !p.state.HasEnded() && !p.finished {
		p.end(shuffle.PartitionLost, reason)
	}
	p.dropIfUnused()
}

// Undone says that the producer takes its creation back. An attempt that nobody
// has read then leaves no trace, so it can be created again; another one is
// released.
func (p *HostedPartition) Undone() {
	m := p.manager
	m.mu.Lock()
	defer m.unlock()
	if p.state.HasEnded() {
		return
	}
	p.traceless = p.untouched()
	p.end(shuffle.PartitionReleased, "its producer took its creation back")
}

// untouched reports whether no subpartition ever had a consumer.
func (p *HostedPartition) untouched() bool {
	for i := range p.sub {
		if p.sub[i].state != subpartitionIdle {
			return false
		}
	}
	return true
}

// end takes the partition out of the registry and tells its consumers. The
// manager's lock is held.
func (p *HostedPartition) end(state shuffle.PartitionState, cause string) {
	m := p.manager
	cause = foreigntext.Graphic(cause)
	err := endError(&p.spec, state, cause)
	if p.state == shuffle.PartitionCreated && state == shuffle.PartitionReleased {
		p.traceless = true
	}
	p.state, p.endedAt = state, m.config.Now()
	cause = foreigntext.Cut(cause, maxCause)
	p.failure = endError(&p.spec, state, cause)
	m.deadlines.remove(p.expiry)
	if m.partitions[p.key()] == p {
		delete(m.partitions, p.key())
	}
	if !p.traceless {
		m.tombstones.add(&tombstone{
			key: p.key(), attempt: p.spec.Attempt, state: state, epitaph: &epitaph{p.spec.Name, cause, p.access},
		})
		m.serveWaiting(p.key())
	}
	for i := range p.sub {
		if r := p.sub[i].request; r != nil {
			m.tell(func() { r.consumer.Failed(err) })
		}
	}
	if state == shuffle.PartitionConsumed || state == shuffle.PartitionExpired || state == shuffle.PartitionFenced {
		m.tell(func() { p.host.Ended(err) })
	}
	p.dropIfUnused()
}

// endErrors gives each end of a partition the error of whoever reads it.
var endErrors = map[shuffle.PartitionState]error{
	shuffle.PartitionConsumed: shuffle.ErrPartitionReleased, shuffle.PartitionFailed: shuffle.ErrPartitionFailed,
	shuffle.PartitionReleased: shuffle.ErrPartitionReleased,
	shuffle.PartitionExpired:  shuffle.ErrPartitionExpired, shuffle.PartitionLost: shuffle.ErrProducerLost,
	shuffle.PartitionFenced: shuffle.ErrFenced,
}

// endError says how a partition has ended, and why.
func endError(spec *shuffle.PartitionSpec, state shuffle.PartitionState, cause string) error {
	return &shuffle.AttemptError{
		Partition: spec.ID, Attempt: spec.Attempt, Next: nextAttempt(spec.Attempt),
		Err: fmt.Errorf("partition %s, attempt %d: %w: %s", spec.Label(), spec.Attempt, endErrors[state], cause),
	}
}

// endIfConsumed releases the partition once it has no users.
func (p *HostedPartition) endIfConsumed() bool {
	if p.users > 0 || p.state.HasEnded() {
		return false
	}
	p.end(shuffle.PartitionConsumed, "it was consumed")
	return true
}

// expireWhenIdle starts the retention time of a finished partition that nobody
// reads at the moment.
func (p *HostedPartition) expireWhenIdle() {
	m := p.manager
	if p.state != shuffle.PartitionFinished || p.attached > 0 {
		return
	}
	m.deadlines.remove(p.expiry)
	p.expiry = m.addDeadline(m.config.Retention, func() {
		p.end(shuffle.PartitionExpired, fmt.Sprintf("nobody read it for %v", m.config.Retention))
	})
}

// detach takes the consumer of a subpartition away. The manager's lock is held.
func (p *HostedPartition) detach(subpartition int, consumed bool, reason string) {
	s := &p.sub[subpartition]
	s.request = nil
	s.state = subpartitionAbandoned
	if consumed {
		s.state = subpartitionConsumed
	}
	p.attached--
	p.users--
	if !p.state.HasEnded() {
		p.manager.tell(func() { p.host.ConsumerDetached(subpartition, consumed, reason) })
		if !p.endIfConsumed() {
			p.expireWhenIdle()
		}
	}
	p.dropIfUnused()
}

// dropIfUnused gives the memory of an ended partition back once nobody can
// read or write it.
func (p *HostedPartition) dropIfUnused() {
	harmless := p.finished && !p.abandoned && !p.holdWhileMapped
	if !p.state.HasEnded() || p.dropped || p.attached > 0 || !p.producerGone && !harmless && !p.evicted {
		return
	}
	p.drop(p.abandoned && !p.evicted)
}

func (p *HostedPartition) drop(readerMaps bool) {
	p.dropped = true
	m := p.manager
	m.all.remove(p)
	others := m.byID[p.spec.ID]
	i := slices.Index(others, p)
	if others = slices.Delete(others, i, i+1); len(others) > 0 {
		m.byID[p.spec.ID] = others
	} else {
		delete(m.byID, p.spec.ID)
	}
	if m.all.n == 0 {
		close(m.empty)
	}
	m.tell(func() { p.host.Drop(readerMaps) })
}

// info returns what the registry knows of the partition; the host knows the
// rest. The manager's lock is held.
func (p *HostedPartition) info(subpartitions int) shuffle.PartitionInfo {
	info := shuffle.PartitionInfo{
		ID: p.spec.ID, Attempt: p.spec.Attempt, Name: p.spec.Name, Type: p.spec.Type, State: p.state.String(),
		Subpartitions: len(p.sub), Created: p.created, Producer: p.producer, ProducerAttached: !p.producerGone,
		Ended: p.endedAt,
	}
	if p.failure != nil {
		info.Failure = p.failure.Error()
	}
	for i := range min(subpartitions, len(p.sub)) {
		s := &p.sub[i]
		row := shuffle.SubpartitionInfo{Index: i, State: subpartitionStates[s.state]}
		if s.request != nil {
			row.Consumer = s.request.claim.Who
			row.GateID, row.Channel = s.request.consumer.Place()
		}
		info.SubpartitionInfo = append(info.SubpartitionInfo, row)
	}
	return info
}
