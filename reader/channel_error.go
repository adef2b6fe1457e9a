package reader

import (
	"fmt"
	"strings"

	"shuffled/shuffle"
)

// A ChannelError says that one channel of a gate has lost something, or cannot go
// on now, and why. errors.As finds it in what a gate returns, and errors.Is its
// cause.
type ChannelError struct {
	// Channel is the index of the input.
	Channel int
	// Partition and Subpartition are what the channel reads.
	Partition    shuffle.PartitionID
	Name         string // of the input, if it has one
	Subpartition int
	// Ended reports whether nothing more comes from the channel. A channel that is
	// not at its end goes on with the next record or buffer.
	Ended bool
	// Err is the cause.
	Err error
}

// Error names the channel, what it reads, and the cause.
func (e *ChannelError) Error() string {
	cause := "no cause is known"
	if e.Err != nil {
		cause = e.Err.Error()
	}
	if strings.Contains(cause, e.Partition.String()) {
		return fmt.Sprintf("channel %d: %s", e.Channel, cause)
	}
	partition := shuffle.PartitionSpec{ID: e.Partition, Name: e.Name}
	return fmt.Sprintf("channel %d: subpartition %d of partition %s: %s", e.Channel, e.Subpartition, partition.Label(), cause)
}

// Unwrap returns the cause.
func (e *ChannelError) Unwrap() error { return e.Err }

// channelError is what a channel has to say that is no loss.
func (g *InputGate) channelError(channel int, err error) *ChannelError {
	in := &g.spec.Inputs[channel]
	return &ChannelError{Channel: channel, Partition: in.Partition, Name: in.Name, Subpartition: in.Subpartition, Err: err}
}

// lose notes that a channel has lost something: from now on the gate does not end
// with io.EOF. It returns the error to tell.
func (g *InputGate) lose(channel int, err error) *ChannelError {
	e := g.channelError(channel, err)
	if g.loss == nil {
		g.loss = e
	}
	return e
}

// failReading ends a channel of which no more can be read. If it had ended before,
// its memory may have been taken away since.
func (g *InputGate) failReading(channel int, err error) *ChannelError {
	if failure := g.channels[channel].failure; failure != nil {
		err = fmt.Errorf("%w; not all that was committed can be read: %w", failure, err)
	}
	return g.fail(channel, err)
}

// fail ends a channel with an error.
func (g *InputGate) fail(channel int, err error) *ChannelError {
	e := g.lose(channel, err)
	e.Ended = true
	g.channels[channel].record = partialRecord{}
	g.end(channel)
	return e
}
