package pool

// SetKept keeps n segments for users who have little, which is at most half of n. Their
// grants are admitted with them, and they are lent of them beyond what these require. So
// whoever has taken all the rest, and gives nothing back, does not keep those out who
// come later, nor from a size with which they can work. Of other users, those whose
// grants require little are admitted with half of what is kept.
//
// What is lent of them may not come back either. So a user is lent no more of them than
// would leave as many as the user has in all: there is something for another one, which
// gets less with each that came before. After log2(n) users or so, all of whom keep what
// they can, nothing is left. A number that is negative counts as 0, one above
// the total as the total.
func (p *NetworkBufferPool) SetKept(n int) {
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	p.kept = max(0, min(n, p.total))
	p.changed()
}

// little is how much of what is kept is for one user, and with how much it has little.
// The caller holds the lock.
func (p *NetworkBufferPool) little() int { return p.kept / 2 }

// A standing is what somebody may be admitted with. Grants of the same standing that
// wait to be admitted take turns.
type standing int

const (
	hasLittle      standing = iota // with everything
	requiresLittle                 // not with what is for one who has little
	hasMuch                        // with nothing of what is kept
	standings
)

// standingOf is that of a user who asks for a grant. The caller holds the lock.
func (p *NetworkBufferPool) standingOf(u *user, spec GrantSpec) standing {
	switch {
	case spec.MayUseKept || u.has+spec.Required <= p.little():
		return hasLittle
	case u.required+spec.Required <= p.little():
		return requiresLittle
	}
	return hasMuch
}

// keptFrom returns how many segments are to be left when somebody is admitted. The
// caller holds the lock.
func (p *NetworkBufferPool) keptFrom(s standing) int {
	return [standings]int{0, p.kept - p.little(), p.kept}[s]
}

// beyondClaims returns how many of n segments are for those who have little, or are not
// kept. Claims of the others are to what exceeds what is kept from them. The caller
// holds the lock.
func (p *NetworkBufferPool) beyondClaims(n int) int {
	for s, claimed := range p.admissions.claimed {
		n -= max(0, min(claimed, n-p.keptFrom(standing(s))))
	}
	return max(0, n)
}

// spareFor returns how many segments grants of a user may have now beyond what they
// require: what is not kept, or some of what is if the user has little. The caller
// holds the lock.
func (p *NetworkBufferPool) spareFor(u *user) int {
	lendable := p.lendable()
	return max(0, lendable-p.kept, min(p.little()-u.has, (lendable-u.has)/2))
}
