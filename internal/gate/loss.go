package gate

import (
	"fmt"

	"shuffled/shuffle"
)

// channelError is what a channel has to say that is no loss.
func (g *InputGate) channelError(channel int, err error) *shuffle.ChannelError {
	in := &g.spec.Inputs[channel]
	return &shuffle.ChannelError{Channel: channel, Partition: in.Partition, Name: in.Name,
		Subpartition: in.Subpartition, Err: err}
}

// lose notes that a channel has lost something: from now on the gate does not end
// with io.EOF. It returns the error to tell.
func (g *InputGate) lose(channel int, err error) *shuffle.ChannelError {
	e := g.channelError(channel, err)
	if g.loss == nil {
		g.loss = e
	}
	return e
}

// failReading ends a channel of which no more can be read. If it had ended before,
// its memory may have been taken away since.
func (g *InputGate) failReading(channel int, err error) *shuffle.ChannelError {
	if failure := g.channels[channel].failure; failure != nil {
		err = fmt.Errorf("%w; not all that was committed can be read: %w", failure, err)
	}
	return g.fail(channel, err)
}

// fail ends a channel with an error.
func (g *InputGate) fail(channel int, err error) *shuffle.ChannelError {
	e := g.lose(channel, err)
	e.Ended = true
	if !g.loss.Ended {
		g.loss = e // it says more than a record that was passed over
	}
	g.channels[channel].record = partialRecord{}
	g.end(channel, false)
	return e
}
