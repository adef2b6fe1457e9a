package pool

// A user is who grants are made for. Its fields are guarded by the lock of the pool.
type user struct {
	id       uint32
	live     int   // its grants that were not destroyed, those that wait to be admitted too
	required int   // what is promised to those that were admitted
	appetite tally // of those: what each can use beyond what it requires
	has      int   // what its grants hold, destroyed ones too, and may still require
	lingers  int   // what of it destroyed ones hold

	// In the tallies of the pool: what lingers, and with what its grants can use on
	// top of it.
	base, top int

	part    int // of the surplus, when sizes were set
	waiting placedHeap[*Grant]
	place   int // in pool.waiting, counted from 1; 0 while not there

	// While sizes are set.
	nextPart int
	isExact  bool
	all      uint64 // what its grants can use together of its part, each as if it had it alone
	left     int    // of its part
}

// userOf returns the user of a grant that is about to be made; enter makes it known.
// The caller holds the lock.
func (p *NetworkBufferPool) userOf(spec GrantSpec) *user {
	if u := p.usersByID[spec.User]; u != nil {
		return u
	}
	return &user{id: spec.User}
}

// enter counts another grant of a user, which is in the pool from then on. The caller
// holds the lock.
func (p *NetworkBufferPool) enter(u *user) {
	if p.usersByID[u.id] == nil {
		p.usersByID[u.id] = u
		p.users = append(p.users, u)
		p.bases.add(u.base)
		p.tops.add(u.top)
	}
	u.live++
}

// forgets reports whether a user has nothing any more, and takes it out if so. The
// caller holds the lock, and takes it off the list of users.
func (p *NetworkBufferPool) forgets(u *user) bool {
	if u.live > 0 || u.has > 0 {
		return false
	}
	delete(p.usersByID, u.id)
	p.bases.remove(u.base)
	p.tops.remove(u.top)
	return true
}

// weigh is called after a change of a user's appetite or of what lingers. The caller
// holds the lock.
func (p *NetworkBufferPool) weigh(u *user) {
	base := u.lingers
	top := base + int(min(uint64(p.total), u.appetite.sum))
	if base != u.base {
		p.bases.add(base)
		p.bases.remove(u.base)
	}
	if top != u.top {
		p.tops.add(top)
		p.tops.remove(u.top)
	}
	u.base, u.top = base, top
}

// charge changes what a user has. The caller holds the lock.
func (p *NetworkBufferPool) charge(u *user, n int) {
	if n != 0 {
		u.has += n
		p.waiting.updateUser(u)
	}
}

func (u *user) before(other *user) bool {
	if u.has != other.has {
		return u.has < other.has
	}
	return u.waiting[0].waitsSince < other.waiting[0].waitsSince
}

func (u *user) placeIn() *int { return &u.place }

// A division says which part of the surplus is whose: users are given of it up to the
// level, counting what lingers, and one segment more while there are some left.
type division struct{ level, left int }

// divide divides the surplus by max-min fairness: who can use less than an equal part
// gets what it can use, and the others share the rest. If that gives nobody more than
// little, some of what is kept is divided too, up to little for each. The caller holds
// the lock.
func (p *NetworkBufferPool) divide() (d division) {
	n := p.unpromised()
	surplus := max(0, n-p.kept)
	d.level, d.left = waterLevel(&p.bases, &p.tops, surplus)
	if d.level < p.little() {
		d.level, d.left = waterLevel(&p.bases, &p.tops, surplus+min(n, p.kept)/2)
		if d.level >= p.little() {
			d = division{level: p.little()}
		}
	}
	return d
}

// part returns a user's part, and whether it is exact: of what is left, only those may
// get a segment for whom it is not.
func (d division) part(u *user) (part int, isExact bool) {
	return min(u.top, d.level) - min(u.base, d.level), d.left == 0 || d.level < u.base || u.top <= d.level
}
