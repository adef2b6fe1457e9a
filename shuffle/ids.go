package shuffle

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// A PartitionID names a result partition: 128 bits, unique over jobs and hosts.
// The zero value is not a valid id.
type PartitionID [16]byte

// NewPartitionID returns a random id.
func NewPartitionID() PartitionID {
	var id PartitionID
	_, _ = rand.Read(id[:]) // crypto/rand.Read never fails
	return id
}

// NamedPartitionID derives an id from a name that producer and consumer agree
// on, such as "job-42/map-3". Equal names give equal ids.
func NamedPartitionID(name string) PartitionID {
	sum := sha256.Sum256([]byte(name))
	return PartitionID(sum[:16])
}

// ParsePartitionID reads the 32 hex digits that String writes.
func ParsePartitionID(s string) (PartitionID, error) {
	var id PartitionID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(id) {
		return id, fmt.Errorf("partition id %.40q: want 32 hex digits: %w", s, ErrInvalidArgument)
	}
	copy(id[:], b)
	if id.IsZero() {
		return id, fmt.Errorf("partition id is zero: %w", ErrInvalidArgument)
	}
	return id, nil
}

// IsZero reports whether the id is unset.
func (id PartitionID) IsZero() bool { return id == PartitionID{} }

// String returns the id as 32 hex digits.
func (id PartitionID) String() string { return hex.EncodeToString(id[:]) }

// UnmarshalText reads what MarshalText writes.
func (id *PartitionID) UnmarshalText(text []byte) error {
	if id == nil {
		return fmt.Errorf("partition id %.40q is read into nil: %w", text, ErrInvalidArgument)
	}
	var read PartitionID
	if n, err := hex.Decode(read[:], text[:min(len(text), 2*len(read))]); err != nil || n != len(read) ||
		len(text) != 2*len(read) {
		return fmt.Errorf("partition id %.40q: want 32 hex digits: %w", text, ErrInvalidArgument)
	}
	*id = read
	return nil
}

// MarshalText returns the id as String does, for JSON and logs.
func (id PartitionID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }
