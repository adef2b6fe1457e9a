package ipc

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"shuffled/shuffle"
)

// encodeMessage appends a message to buf and checks its size. An empty packet
// would be taken for the end of this process.
func encodeMessage(buf []byte, msg proto.Message) ([]byte, error) {
	packet, err := proto.MarshalOptions{}.MarshalAppend(buf, msg)
	switch size := len(packet) - len(buf); {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", shuffle.ErrInvalidArgument, err)
	case size == 0:
		return nil, fmt.Errorf("got a message of 0 bytes, want 1 to %d: %w", MaxMessageSize, shuffle.ErrInvalidArgument)
	case size > MaxMessageSize:
		return nil, fmt.Errorf("got a message of %d bytes, limit %d: %w", size, MaxMessageSize,
			shuffle.ErrInvalidArgument)
	}
	return packet, nil
}

// MessageName names a message for an error: its type and, of an envelope, what
// is in it, as in "ClientMessage.create_partition".
func MessageName(msg proto.Message) string {
	if msg == nil {
		return "message"
	}
	m := msg.ProtoReflect()
	name := string(m.Descriptor().Name())
	if body := m.Descriptor().Oneofs().ByName("body"); body != nil {
		if field := m.WhichOneof(body); field != nil {
			name += "." + string(field.Name())
		}
	}
	return name
}
