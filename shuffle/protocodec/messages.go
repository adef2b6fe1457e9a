package protocodec

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"shuffled/internal/absent"
	"shuffled/shuffle"
)

// Messages is the shuffle.AppendCodec of messages of one type, which protoc-gen-go has
// generated: T is the pointer to it, as the methods of the message have it. A decoded
// message is a copy, so it may be kept.
type Messages[T proto.Message] struct{}

// Append adds the wire format of m. No message, one without a required field and text
// that is not UTF-8 are errors.
func (Messages[T]) Append(dst []byte, m T) ([]byte, error) {
	if absent.Is(m) {
		return dst, fmt.Errorf("append no message of type %T: %w", m, shuffle.ErrInvalidArgument)
	}
	return proto.MarshalOptions{}.MarshalAppend(dst, m)
}

// Decode reads a message.
func (Messages[T]) Decode(src []byte) (T, error) {
	var none T
	if any(none) == nil {
		return none, fmt.Errorf("decode a message of no type in particular, want that of a generated one: %w",
			shuffle.ErrInvalidArgument)
	}
	m := none.ProtoReflect().New().Interface().(T)
	return m, proto.Unmarshal(src, m)
}
