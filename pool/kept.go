package pool

// SetKept keeps n segments for grants whose spec says so: they are not lent beyond
// what grants require, and no other grant is admitted with them. So whoever has taken
// all the rest, and gives nothing back, does not keep those out. A number that is
// negative counts as 0, one above the total as the total.
func (p *NetworkBufferPool) SetKept(n int) {
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	p.kept = max(0, min(n, p.total))
	p.handOn()
}

// keptFrom returns how many segments a grant cannot be admitted with. The caller holds
// the lock.
func (p *NetworkBufferPool) keptFrom(spec GrantSpec) int {
	if spec.MayUseKept {
		return 0
	}
	return p.kept
}
