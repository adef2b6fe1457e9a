package shuffle

import (
	"encoding/binary"
	"fmt"

	"shuffled/internal/absent"
	"shuffled/memseg"
)

// An Event travels between records: it never shares a buffer with them, uses no
// segment of the pool and is not subject to back-pressure.
type Event interface {
	// DataType is how the event is queued.
	DataType() memseg.DataType
	appendTo(b []byte) []byte
}

// The codes of serialised events, as in Flink's EventSerializer: four bytes
// big-endian, then the body. Codes are never reused.
const (
	codeEndOfPartition = 0
	codeCustomEvent    = 3
)

// EndOfPartition is the last element of a subpartition.
type EndOfPartition struct{}

// DataType returns memseg.EndOfPartition.
func (EndOfPartition) DataType() memseg.DataType { return memseg.EndOfPartition }

func (EndOfPartition) appendTo(b []byte) []byte {
	return binary.BigEndian.AppendUint32(b, codeEndOfPartition)
}

// A CustomEvent is an event of the user: a name and any bytes. With its header
// it must fit memseg.EventSlotSize.
type CustomEvent struct {
	Name string
	Body []byte
	// Priority makes the event overtake what is queued before it.
	Priority bool
}

// DataType returns EventBuffer, or PrioritizedEventBuffer for a priority event.
func (e CustomEvent) DataType() memseg.DataType {
	if e.Priority {
		return memseg.PrioritizedEventBuffer
	}
	return memseg.EventBuffer
}

func (e CustomEvent) appendTo(b []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, codeCustomEvent)
	b = binary.BigEndian.AppendUint16(b, uint16(len(e.Name)))
	b = append(b, e.Name...)
	return append(b, e.Body...)
}

// plainEvent returns the event that e is or points to; ErrInvalidArgument without one.
func plainEvent(e Event) (Event, error) {
	if absent.Is(e) {
		return nil, fmt.Errorf("the event is nil (%T): %w", e, ErrInvalidArgument)
	}
	switch e := e.(type) {
	case *CustomEvent:
		return *e, nil
	case *EndOfPartition:
		return *e, nil
	}
	return e, nil
}

// EncodeEvent serialises an event. One that does not fit an event slot is
// ErrEventTooLarge, none is ErrInvalidArgument.
func EncodeEvent(e Event) ([]byte, error) {
	e, err := plainEvent(e)
	if err != nil {
		return nil, err
	}
	if c, ok := e.(CustomEvent); ok && len(c.Name)+len(c.Body)+6 > memseg.EventSlotSize {
		return nil, fmt.Errorf("event %.32q with a body of %d bytes, want name and body of at most %d bytes: %w",
			c.Name, len(c.Body), memseg.EventSlotSize-6, ErrEventTooLarge)
	}
	content := e.appendTo(nil)
	if len(content) > memseg.EventSlotSize {
		return nil, fmt.Errorf("event %T of %d bytes, want at most %d: %w", e, len(content), memseg.EventSlotSize,
			ErrEventTooLarge)
	}
	return content, nil
}

// DecodeEvent reads a serialised event; typ is how it was queued. Bytes after
// the body are tolerated. What does not parse is ErrProtocol, and so is an end that
// was queued as something else, or something else that was queued as the end.
func DecodeEvent(b []byte, typ memseg.DataType) (Event, error) {
	if len(b) < 4 {
		return nil, fmt.Errorf("incomplete event of %d bytes, want at least 4: %w", len(b), ErrProtocol)
	}
	body := b[4:]
	code := binary.BigEndian.Uint32(b)
	if isEnd := typ == memseg.EndOfPartition; isEnd != (code == codeEndOfPartition) {
		return nil, fmt.Errorf("event with code %d was queued as %s: %w", code, typ, ErrProtocol)
	}
	switch code {
	case codeEndOfPartition:
		return EndOfPartition{}, nil
	case codeCustomEvent:
		if len(body) < 2 {
			return nil, fmt.Errorf("custom event of %d bytes, want at least 6: %w", len(b), ErrProtocol)
		}
		n := int(binary.BigEndian.Uint16(body))
		if n > len(body)-2 {
			return nil, fmt.Errorf("custom event with a name of %d bytes in a body of %d: %w", n, len(body),
				ErrProtocol)
		}
		return CustomEvent{
			Name: string(body[2 : 2+n]), Body: append([]byte(nil), body[2+n:]...),
			Priority: typ == memseg.PrioritizedEventBuffer,
		}, nil
	default:
		return nil, fmt.Errorf("corrupt event: code %d is unknown: %w", code, ErrProtocol)
	}
}
