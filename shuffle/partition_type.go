package shuffle

import "fmt"

// ResultPartitionType says how a partition is exchanged. The values are part of
// the protocol and of the region header and are never reused.
type ResultPartitionType uint8

const (
	// Pipelined hands data over while it is produced; each subpartition is
	// consumed once; the buffers in flight are limited by the daemon's memory only.
	Pipelined ResultPartitionType = 1
	// PipelinedBounded is Pipelined with a bounded number of buffers in flight.
	PipelinedBounded ResultPartitionType = 2
)

// IsBounded reports whether the pool of the partition has an upper bound.
func (t ResultPartitionType) IsBounded() bool { return t == PipelinedBounded }

// Validate returns ErrInvalidArgument for a type that this version does not know.
func (t ResultPartitionType) Validate() error {
	switch t {
	case Pipelined, PipelinedBounded:
		return nil
	}
	return fmt.Errorf("result partition type %d: want PIPELINED (1) or PIPELINED_BOUNDED (2): %w", uint8(t),
		ErrInvalidArgument)
}

// String returns the name Flink's users know.
func (t ResultPartitionType) String() string {
	switch t {
	case Pipelined:
		return "PIPELINED"
	case PipelinedBounded:
		return "PIPELINED_BOUNDED"
	}
	return fmt.Sprintf("ResultPartitionType(%d)", uint8(t))
}
