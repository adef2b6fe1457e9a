package shuffle

import (
	"fmt"
	"math"
)

// An AttemptError is an error about one attempt of a partition. errors.Is finds in
// it what happened: ErrAlreadyExists and ErrFenced when an attempt is created;
// ErrFenced, ErrPartitionReleased, ErrPartitionExpired, ErrPartitionFailed and
// ErrProducerLost when one has ended, for its consumers and its producer;
// ErrAlreadyConsumed when another consumer has or had the subpartition. It survives
// the control socket, so errors.As finds it in what a client returns.
//
// A producer that restarts creates the attempt Next. A consumer that restarts
// waits for one that is newer than Attempt, which is what it had read. See
// docs/recovery.md.
type AttemptError struct {
	Partition PartitionID
	// Attempt is the attempt that the error is about: the one that was to be
	// created or read, or that has ended.
	Attempt uint32
	// Next is the lowest attempt that could be created when the error was made. 0
	// says that there is none, since MaxAttempt has been: the id can be used again
	// only once the daemon has forgotten it, so take another.
	Next uint32
	// Err is what happened, and the text.
	Err error
}

// MaxAttempt is the last attempt of a partition.
const MaxAttempt = math.MaxUint32

// Error returns the text of Err.
func (e *AttemptError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("partition %s, attempt %d", e.Partition, e.Attempt)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *AttemptError) Unwrap() error { return e.Err }
