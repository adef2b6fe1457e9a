package registry

// Readers returns the requests of the consumers that are attached, if the
// partition has ended; false before. vanished says that others, whose connections have
// ended, may be reading as well. It may be called with locks held.
func (p *HostedPartition) Readers() (readers []*SubpartitionRequest, vanished, ended bool) {
	p.manager.mu.Lock()
	defer p.manager.mu.Unlock()
	if !p.state.HasEnded() {
		return nil, false, false
	}
	for i := range p.sub {
		if r := p.sub[i].request; r != nil {
			readers = append(readers, r)
		}
	}
	return readers, p.abandoned && !p.evicted, true
}
