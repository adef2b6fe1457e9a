package client

import "time"

// tidy has partitions give back the segments that they have not needed between two
// rounds and longer, whether or not their writers do anything, until nothing is received
// any more.
func (c *Client) tidy(pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-c.ended:
			return
		}
		c.mu.Lock()
		partitions := make([]*remotePartition, 0, len(c.partitions))
		for _, r := range c.partitions {
			partitions = append(partitions, r)
		}
		c.mu.Unlock()
		for _, r := range partitions {
			r.mu.Lock()
			p := r.partition
			r.mu.Unlock()
			if p != nil {
				p.GiveBackIdle()
			}
		}
	}
}
