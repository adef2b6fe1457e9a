package shuffle

// EndedByHost tells the producer that its host has ended the partition, and why:
// it was consumed, which is the normal end, has expired, or was fenced by a newer
// attempt. Later writes return err.
func (p *ResultPartition) EndedByHost(err error) { p.end(err) }
