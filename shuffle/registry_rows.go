package shuffle

import (
	"container/heap"
	"fmt"
	"slices"
	"strings"
)

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

// Page returns up to limit rows after a key, in order, and whether there are more:
// of the partitions that somebody may read, and of their newest attempts.
func (m *ResultPartitionManager) Page(after PartitionKey, limit int, who Principal) (rows []HostedInfo, more bool) {
	m.mu.Lock()
	defer m.unlock()
	var lowest pageHeap
	newest := make(map[PartitionKey]*HostedPartition)
	for p := range m.all {
		key := p.key()
		if key.compare(after) <= 0 || !p.access.allows(key.Owner, who, "") {
			continue
		}
		if other := newest[key]; other != nil {
			if p.spec.Attempt > other.spec.Attempt {
				newest[key] = p
			}
			continue
		}
		if len(lowest) == limit && key.compare(lowest[0]) > 0 {
			more = true
			continue
		}
		newest[key] = p
		heap.Push(&lowest, key)
		if len(lowest) > limit {
			delete(newest, heap.Pop(&lowest).(PartitionKey))
			more = true
		}
	}
	for _, p := range newest {
		rows = append(rows, HostedInfo{p.info(0), p.host})
	}
	slices.SortFunc(rows, func(a, b HostedInfo) int {
		return PartitionKey{a.ID, a.Producer.UID}.compare(PartitionKey{b.ID, b.Producer.UID})
	})
	return rows, more
}

// A pageHeap has the largest key at its root.
type pageHeap []PartitionKey

func (h pageHeap) Len() int           { return len(h) }
func (h pageHeap) Less(i, j int) bool { return h[i].compare(h[j]) > 0 }
func (h pageHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *pageHeap) Push(x any)        { *h = append(*h, x.(PartitionKey)) }
func (h *pageHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// Row returns the row of the partition with an id, the newest attempt if
// there are several, with up to subpartitions rows of its subpartitions. Without
// one, or if who may not read it, it returns what asking for it would:
// ErrPartitionNotFound or what became of it.
//
// owner says whose partition is meant. Nil is that of who, or else the only one
// that who may read; if that is several users', the error is ErrInvalidArgument
// and names them.
func (m *ResultPartitionManager) Row(id PartitionID, owner *uint32, who Principal, subpartitions int) (HostedInfo, error) {
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
	return HostedInfo{}, fmt.Errorf("%w: %s", ErrPartitionNotFound, id)
}

// oneOwner returns whose partition is meant: one's own, or else the only one.
func oneOwner(id PartitionID, self uint32, newest map[uint32]*HostedPartition, ended map[uint32]*tombstone) (uint32, error) {
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
		return 0, fmt.Errorf("partition %s: it is of the uids %s, say whose: %w", id, strings.Trim(fmt.Sprint(owners), "[]"), ErrInvalidArgument)
	}
	if len(owners) == 1 {
		return owners[0], nil
	}
	return self, nil
}
