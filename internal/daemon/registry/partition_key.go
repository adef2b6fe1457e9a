package registry

import (
	"bytes"
	"cmp"
	"shuffled/shuffle"
)

// A PartitionKey is what a partition is found by: an id means something among the
// partitions of one user only, so nobody can take another's name. Keys are ordered
// by id, then by owner.
type PartitionKey struct {
	ID    shuffle.PartitionID
	Owner uint32
}

// Compare orders keys, as cmp.Compare does.
func (k PartitionKey) Compare(other PartitionKey) int {
	return cmp.Or(bytes.Compare(k.ID[:], other.ID[:]), cmp.Compare(k.Owner, other.Owner))
}
