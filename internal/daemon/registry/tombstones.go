package registry

import "shuffled/shuffle"

// A tombstone says which attempt of a partition was the last, and how it ended.
type tombstone struct {
	key     PartitionKey
	attempt uint32
	state   shuffle.PartitionState
	epitaph *epitaph // nil if there is nothing to say, or there was no room for it
	older   *tombstone
	newer   *tombstone // both of the same user
}

// An epitaph is what a tombstone says beside the attempt and its end.
type epitaph struct {
	name, cause string
	access      *access
}

// maxCause is how much of a cause is remembered after the end, in bytes.
const maxCause = 256

// bytes is about what it takes of the heap.
func (e *epitaph) bytes() int {
	if e == nil {
		return 0
	}
	return 48 + len(e.name) + len(e.cause) + e.access.bytes()
}

// err is the error of whoever asks for the partition.
func (s *tombstone) err() error {
	spec := shuffle.PartitionSpec{ID: s.key.ID, Attempt: s.attempt}
	cause := "the daemon has forgotten why"
	if s.epitaph != nil {
		spec.Name, cause = s.epitaph.name, s.epitaph.cause
	}
	return endError(&spec, s.state, cause)
}

// allows reports whether somebody may know of it.
func (s *tombstone) allows(who shuffle.Principal, token string) bool {
	var a *access
	if s.epitaph != nil {
		a = s.epitaph.access
	}
	return a.allows(s.key.Owner, who, token)
}

// tombstones remember the partitions that ended last, so that asking for one
// tells what became of it and an old attempt does not come to life again. Their
// owner guards them.
//
// Each user has a share, beyond which its own oldest goes. If all together are
// too many nevertheless, the oldest of the user with the most goes: so nobody can
// make the daemon forget what it remembers for a user who asks for less. Epitaphs,
// which are of any length, go by bytes in the same way, and before the tombstones.
type tombstones struct {
	most, mostEach   int // tombstones
	bytes, bytesEach int // of epitaphs
	byKey            map[PartitionKey]*tombstone
	users            map[uint32]*graveyard
	text             int // bytes of all epitaphs
}

// A graveyard has the tombstones of one user.
type graveyard struct {
	oldest, newest *tombstone
	legible        *tombstone // older ones have no epitaph
	count, text    int
}

func newTombstones(most, mostEach, bytes int) tombstones {
	return tombstones{
		most: most, mostEach: mostEach, bytes: bytes, bytesEach: bytes / 4,
		byKey: make(map[PartitionKey]*tombstone), users: make(map[uint32]*graveyard),
	}
}

// add buries an attempt. An older one of the same partition is forgotten; an
// older one than is buried changes nothing.
func (t *tombstones) add(stone *tombstone) {
	if other := t.byKey[stone.key]; other != nil {
		if other.attempt > stone.attempt {
			return
		}
		t.remove(other)
	}
	t.byKey[stone.key] = stone
	yard := t.users[stone.key.Owner]
	if yard == nil {
		yard = &graveyard{}
		t.users[stone.key.Owner] = yard
	}
	yard.push(stone)
	t.text += stone.epitaph.bytes()
	for yard.text > t.bytesEach {
		t.efface(yard)
	}
	for t.text > t.bytes {
		t.efface(t.fullest(func(y *graveyard) int { return y.text }))
	}
	if yard.count > t.mostEach {
		t.remove(yard.oldest)
	}
	if len(t.byKey) > t.most {
		t.remove(t.fullest(func(y *graveyard) int { return y.count }).oldest)
	}
}

// fullest returns the user who has the most of something.
func (t *tombstones) fullest(of func(*graveyard) int) (fullest *graveyard) {
	for _, yard := range t.users {
		if fullest == nil || of(yard) > of(fullest) {
			fullest = yard
		}
	}
	return fullest
}

// efface takes the oldest epitaph of a user away.
func (t *tombstones) efface(yard *graveyard) {
	stone := yard.legible
	n := stone.epitaph.bytes()
	stone.epitaph = nil
	yard.text -= n
	t.text -= n
	yard.legible = stone.newer
}

// remove forgets a tombstone.
func (t *tombstones) remove(stone *tombstone) {
	delete(t.byKey, stone.key)
	yard := t.users[stone.key.Owner]
	yard.remove(stone)
	t.text -= stone.epitaph.bytes()
	if yard.count == 0 {
		delete(t.users, stone.key.Owner)
	}
}

// find returns the tombstone of a partition, or nil.
func (t *tombstones) find(key PartitionKey) *tombstone { return t.byKey[key] }

// ofAnyone returns the tombstones of an id, of whatever user.
func (t *tombstones) ofAnyone(id shuffle.PartitionID) (stones []*tombstone) {
	for owner := range t.users {
		if stone := t.byKey[PartitionKey{ID: id, Owner: owner}]; stone != nil {
			stones = append(stones, stone)
		}
	}
	return stones
}

func (y *graveyard) push(stone *tombstone) {
	stone.older, stone.newer = y.newest, nil
	if y.newest != nil {
		y.newest.newer = stone
	} else {
		y.oldest = stone
	}
	y.newest = stone
	if y.legible == nil {
		y.legible = stone
	}
	y.count++
	y.text += stone.epitaph.bytes()
}

func (y *graveyard) remove(stone *tombstone) {
	if y.legible == stone {
		y.legible = stone.newer
	}
	if stone.older != nil {
		stone.older.newer = stone.newer
	} else {
		y.oldest = stone.newer
	}
	if stone.newer != nil {
		stone.newer.older = stone.older
	} else {
		y.newest = stone.older
	}
	y.count--
	y.text -= stone.epitaph.bytes()
}
