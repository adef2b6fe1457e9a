package shuffle

import (
	"fmt"
	"strings"
)

// A ChannelError says that one channel of a gate has lost something, or cannot go
// on now, and why. errors.As finds it in what a gate returns, and errors.Is its
// cause.
type ChannelError struct {
	// Channel is the index of the input.
	Channel int
	// Partition and Subpartition are what the channel reads.
	Partition    PartitionID
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
	partition := PartitionSpec{ID: e.Partition, Name: e.Name}
	return fmt.Sprintf("channel %d: subpartition %d of partition %s: %s", e.Channel, e.Subpartition, partition.Label(),
		cause)
}

// Unwrap returns the cause.
func (e *ChannelError) Unwrap() error { return e.Err }
