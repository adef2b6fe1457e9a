package registry

import (
	"fmt"
	"time"

	"shuffled/shuffle"
)

// withdrawGrace is how long consumers and producer of a partition that an operator
// releases have to let go of it.
const withdrawGrace = time.Second

// Withdraw releases all attempts of a partition on behalf of an operator, root or
// its owner, whoever uses them. Consumers are told at once: they get
// ErrPartitionReleased. Soon after, who still holds the partition is taken for
// hung: the registry forgets it, and the host is told to take the memory away.
// ErrPartitionNotFound says that there is none, or none that who may know of;
// ErrPermission that it is another user's.
func (m *ResultPartitionManager) Withdraw(id shuffle.PartitionID, owner uint32, who shuffle.Principal,
	reason string) error {
	m.mu.Lock()
	defer m.unlock()
	found := false
	for _, p := range m.byID[id] {
		if p.producer.UID != owner || !p.access.allows(owner, who, "") {
			continue
		}
		if who.UID != 0 && who.UID != owner {
			return fmt.Errorf("release partition %s of uid %d: %w", p.spec.Label(), owner, shuffle.ErrPermission)
		}
		found = true
		p.withdraw(reason)
	}
	if !found {
		return fmt.Errorf("release partition: %w: %s", shuffle.ErrPartitionNotFound, id)
	}
	return nil
}

// withdraw ends the partition, and drops it after the grace. The manager's lock is
// held.
func (p *HostedPartition) withdraw(reason string) {
	m := p.manager
	if !p.state.HasEnded() {
		p.end(shuffle.PartitionReleased, reason)
		err := p.failure
		m.tell(func() { p.host.Ended(err) })
	}
	if !p.dropped && !p.withdrawn {
		p.withdrawn = true
		m.addDeadline(withdrawGrace, p.evict)
	}
}

// evict drops the partition, whoever has it mapped. The manager's lock is held.
func (p *HostedPartition) evict() {
	if p.dropped {
		return
	}
	p.evicted = true
	for i := range p.sub {
		if r := p.sub[i].request; r != nil {
			r.leave(false, "the partition was withdrawn")
		}
	}
	p.dropIfUnused()
}
