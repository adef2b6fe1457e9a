package shuffle

import "container/list"

// A tombstone says how the last attempt of a partition ended.
type tombstone struct {
	id      PartitionID
	attempt uint32
	access  *access
	err     error // of whoever asks for the partition
}

// tombstones remember the partitions that ended last, so that asking for one
// tells what became of it and an old attempt does not come to life again. Their
// owner guards them.
type tombstones struct {
	limit int
	byID  map[PartitionID]*list.Element
	order list.List // of *tombstone, oldest first
}

func newTombstones(limit int) tombstones {
	return tombstones{limit: limit, byID: make(map[PartitionID]*list.Element)}
}

// add buries an attempt. An older one of the same partition is forgotten; an
// older one than is buried changes nothing.
func (t *tombstones) add(stone *tombstone) {
	if e, ok := t.byID[stone.id]; ok {
		if e.Value.(*tombstone).attempt > stone.attempt {
			return
		}
		e.Value = stone
		t.order.MoveToBack(e)
		return
	}
	t.byID[stone.id] = t.order.PushBack(stone)
	if t.order.Len() > t.limit {
		oldest := t.order.Front()
		t.order.Remove(oldest)
		delete(t.byID, oldest.Value.(*tombstone).id)
	}
}

// find returns the tombstone of a partition, or nil.
func (t *tombstones) find(id PartitionID) *tombstone {
	if e, ok := t.byID[id]; ok {
		return e.Value.(*tombstone)
	}
	return nil
}
