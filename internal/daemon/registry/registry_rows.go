package registry

import (
	"fmt"
	"slices"
	"strings"

	"shuffled/shuffle"
)

// A HostedInfo is a row of the registry.
type HostedInfo struct {
	shuffle.PartitionInfo
	Host PartitionHost
}

// Rows returns a row for each partition that exists or whose memory is still
// held, in the order of their ids. The host fills in what it knows. What comes or goes
// meanwhile may be among them.
func (m *ResultPartitionManager) Rows() (rows []HostedInfo) {
	m.walk(place{}, func(p *HostedPartition) bool {
		rows = append(rows, HostedInfo{p.info(0), p.host})
		return true
	})
	return rows
}

// Page returns up to limit rows after a key, in order, and whether there are more:
// of the partitions that somebody may read, and of their newest attempts. Others have
// their turn while it looks for them.
func (m *ResultPartitionManager) Page(after PartitionKey, limit int, who shuffle.Principal) (rows []HostedInfo,
	more bool) {
	var last PartitionKey // of rows
	m.walk(behind(after), func(p *HostedPartition) bool {
		key := p.key()
		if !p.access.allows(key.Owner, who, "") {
			return true
		}
		row := HostedInfo{p.info(0), p.host}
		switch {
		case len(rows) == 0 || key != last:
			if more = len(rows) == limit; more {
				return false
			}
			rows, last = append(rows, row), key
		case row.Attempt > rows[len(rows)-1].Attempt:
			rows[len(rows)-1] = row
		}
		return true
	})
	return rows, more
}

// walkStep is how many partitions are looked at before others have the lock.
const walkStep = 512

// walk calls f, with the lock held, for the partitions behind a place until it returns
// false. In between, others have the lock.
func (m *ResultPartitionManager) walk(after place, f func(p *HostedPartition) bool) {
	for more := true; more; {
		after, more = m.step(after, f)
	}
}

func (m *ResultPartitionManager) step(after place, f func(p *HostedPartition) bool) (last place, more bool) {
	m.mu.Lock()
	defer m.unlock()
	return m.all.some(after, walkStep, f)
}

// Row returns the row of the partition with an id, the newest attempt if
// there are several, with up to subpartitions rows of its subpartitions. Without
// one, or if who may not read it, it returns what asking for it would:
// ErrPartitionNotFound or what became of it.
//
// owner says whose partition is meant. Nil is that of who, or else the only one
// that who may read; if that is several users', the error is ErrInvalidArgument
// and names them.
func (m *ResultPartitionManager) Row(id shuffle.PartitionID, owner *uint32, who shuffle.Principal,
	subpartitions int) (HostedInfo, error) {
	m.mu.Lock()
	defer m.unlock()
	newest := make(map[uint32]*HostedPartition) // by owner
	ended := make(map[uint32]*tombstone)
	refused := make(map[uint32]Refusal)
	for _, p := range m.byID[id] {
		of := p.producer.UID
		if owner != nil && of != *owner {
			continue
		}
		if !p.access.allows(of, who, "") {
			refused[of] = Refusal{Who: who, Action: "inspect", Partition: id, Name: p.spec.Name, Owner: of}
		} else if other := newest[of]; other == nil || p.spec.Attempt > other.spec.Attempt {
			newest[of] = p
		}
	}
	for _, stone := range m.tombstones.ofAnyone(id) {
		of := stone.key.Owner
		if owner == nil && of != who.UID && len(newest) > 0 || owner != nil && of != *owner {
			continue
		}
		if stone.allows(who, "") {
			ended[of] = stone
		} else if _, ok := refused[of]; !ok {
			refused[of] = Refusal{Who: who, Action: "inspect", Partition: id, Owner: of}
		}
	}
	of, err := oneOwner(id, who.UID, newest, ended)
	if err != nil {
		return HostedInfo{}, err
	}
	if p := newest[of]; p != nil {
		return HostedInfo{p.info(subpartitions), p.host}, nil
	}
	if stone := ended[of]; stone != nil {
		return HostedInfo{}, stone.err()
	}
	for _, refusal := range refused {
		m.tell(func() { m.config.Refused(refusal) })
	}
	return HostedInfo{}, fmt.Errorf("%w: %s", shuffle.ErrPartitionNotFound, id)
}

// oneOwner returns whose partition is meant: one's own, or else the only one.
func oneOwner(id shuffle.PartitionID, self uint32, newest map[uint32]*HostedPartition,
	ended map[uint32]*tombstone) (uint32, error) {
	if newest[self] != nil || ended[self] != nil {
		return self, nil
	}
	var owners []uint32
	for of := range newest {
		owners = append(owners, of)
	}
	for of := range ended {
		if newest[of] == nil {
			owners = append(owners, of)
		}
	}
	if len(owners) > 1 {
		slices.Sort(owners)
		return 0, fmt.Errorf("partition %s: it is of the uids %s, say whose: %w", id,
			strings.Trim(fmt.Sprint(owners), "[]"), shuffle.ErrInvalidArgument)
	}
	if len(owners) == 1 {
		return owners[0], nil
	}
	return self, nil
}
