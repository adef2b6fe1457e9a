package ipc

import (
	"fmt"

	"shuffled/shuffle"
)

// DecodePartitionID reads the 16 bytes of an id in a message. Any other number of bytes,
// and the zero id, is shuffle.ErrInvalidArgument.
func DecodePartitionID(b []byte) (shuffle.PartitionID, error) {
	var id shuffle.PartitionID
	if len(b) != len(id) {
		return id, fmt.Errorf("partition id of %d bytes, want %d: %w", len(b), len(id), shuffle.ErrInvalidArgument)
	}
	copy(id[:], b)
	if id.IsZero() {
		return id, fmt.Errorf("partition id is zero: %w", shuffle.ErrInvalidArgument)
	}
	return id, nil
}
