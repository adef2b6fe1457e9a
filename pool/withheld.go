package pool

// SetWithheld takes n segments off the surplus and off what can be promised, because
// their worth of memory is held by somebody who was not granted it; 0 gives them
// back. What grants hold and what was promised to them stays theirs. A number that is
// negative counts as 0, one above the total as the total.
func (p *NetworkBufferPool) SetWithheld(n int) {
	p.mu.Lock()
	defer p.unlockAndAnnounce()
	if n = max(0, min(n, p.total)); n != p.withheld {
		p.withheld = n
		p.handOn()
	}
}
