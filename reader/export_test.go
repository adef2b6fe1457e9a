package reader

// MaxThreshold is what it is on this machine.
var MaxThreshold = maxThreshold

// SetThreshold makes a channel as busy as one that gets so many bytes in fillTime.
// It returns how much of that the channel leaves unread.
func (g *InputGate) SetThreshold(channel, bytes int) (leave int) {
	c := &g.channels[channel]
	c.threshold = bytes
	return c.leave()
}
