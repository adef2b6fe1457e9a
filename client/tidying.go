package client

import "time"

// tidy has partitions give back the segments that they have not needed for a round and
// longer, whether or not their writers do anything, until nothing is received any more.
func (c *Client) tidy(pause time.Duration) {
	ticker := time.NewTicker(pause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-c.ended:
			return
		}
		partitions, _ := c.stillOpen()
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
