package shuffle

import (
	"fmt"

	"shuffled/memseg"
)

// BufferOrEvent is what a gate delivers: a data buffer or a serialised event of
// one channel. Its receiver owns it and must release it.
type BufferOrEvent struct {
	*memseg.Buffer
	// Channel is the index of the input it came from.
	Channel int
	// MoreAvailable is false if Next would wait, or has reached the end, unless
	// something comes meanwhile. True means that it is worth a try.
	MoreAvailable bool
}

// IsEvent reports whether this is an event; see Event.
func (b BufferOrEvent) IsEvent() bool { return b.DataType().IsEvent() }

// Event decodes the event, or returns ErrProtocol. What has no buffer, as the
// zero value, is ErrInvalidArgument.
func (b BufferOrEvent) Event() (Event, error) {
	if b.Buffer == nil {
		return nil, fmt.Errorf("event of a BufferOrEvent without a buffer, as Next returns beside an error: %w",
			ErrInvalidArgument)
	}
	return DecodeEvent(b.Bytes(), b.DataType())
}
