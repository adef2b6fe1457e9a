package partition

import (
	"fmt"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// A ConsumerLink is what a producer knows of the consumer of one subpartition:
// the words that the consumer writes, and its doorbell. The regions behind it
// stay mapped until Close.
type ConsumerLink struct {
	words   memseg.ChannelWords
	bell    *memseg.Doorbell
	channel int
	close   func()
}

// NewConsumerLink returns the link to a channel of a gate. closed is called once
// when the producer drops the link; it may be nil. The regions may not.
func NewConsumerLink(gate *memseg.Region, l memseg.GateLayout, doorbell *memseg.Region, channel int,
	closed func()) (*ConsumerLink, error) {
	if channel < 0 || channel >= l.Channels {
		return nil, fmt.Errorf("channel %d of a gate with %d: %w", channel, l.Channels, shuffle.ErrProtocol)
	}
	if gate == nil || doorbell == nil {
		return nil, fmt.Errorf("attach consumer: its gate or doorbell is nil: %w", shuffle.ErrInvalidArgument)
	}
	bell, err := memseg.NewDoorbell(doorbell, l.Channels)
	if err != nil {
		return nil, fmt.Errorf("attach consumer: %w", err)
	}
	return &ConsumerLink{words: memseg.NewChannelWords(gate, &l, channel), bell: bell, channel: channel, close: closed},
		nil
}

func (l *ConsumerLink) ring() { l.bell.Ring(l.channel, l.words.Parked) }

// Close drops the link's hold on the consumer's regions.
func (l *ConsumerLink) Close() {
	if l != nil && l.close != nil {
		l.close()
	}
}
