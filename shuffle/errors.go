package shuffle

import "shuffled/internal/sentinel"

// The errors of the shuffle. Each is a sentinel for errors.Is; what is returned
// wraps it with the partition, the place and what to do. Their identity
// survives the control socket (see package ipc).

// Errors about a partition that cannot be created, found or read.
var (
	// ErrPartitionNotFound is returned for a partition that was never created, or
	// that the daemon has forgotten, once the request's timeout has passed. So is
	// one that the user may not read.
	ErrPartitionNotFound error = sentinel.New("partition not found")
	// ErrPartitionReleased is returned for a partition that existed and was
	// released: fully consumed, or released by its producer.
	ErrPartitionReleased error = sentinel.New("partition was released")
	// ErrPartitionExpired is returned for a finished partition that nobody read
	// within the daemon's retention time.
	ErrPartitionExpired error = sentinel.New("partition expired unread")
	// ErrPartitionFailed is returned after the producer reported a failure; the
	// message holds its cause.
	ErrPartitionFailed error = sentinel.New("partition failed")
	// ErrProducerLost is returned when the producer's process ended without
	// finishing, after everything it had committed was delivered.
	ErrProducerLost error = sentinel.New("producer lost")
	// ErrAlreadyExists is returned when an attempt of a partition is created that
	// is there: it is produced, or has finished and is not consumed.
	ErrAlreadyExists error = sentinel.New("partition already exists")
	// ErrFenced is returned when an attempt of a partition is created that has
	// ended, or that is older than one that is there or has ended; and to producer
	// and consumers of an attempt whose place a newer one has taken. An
	// AttemptError says which attempt can be created.
	ErrFenced error = sentinel.New("attempt was fenced by a newer or ended one")
	// ErrAlreadyConsumed is returned to a second consumer of one subpartition.
	ErrAlreadyConsumed error = sentinel.New("subpartition can only be consumed once")
	// ErrPermission is returned to a peer that may not connect to the daemon, and to
	// one that releases another user's partition which it may read. A partition it may
	// not read is reported as not found.
	ErrPermission error = sentinel.New("permission denied")
)

// Errors about memory and limits.
var (
	// ErrInsufficientBuffers is returned when the required segments of a new
	// partition exceed what is free and reserved for no other, and did not come free
	// in time.
	ErrInsufficientBuffers error = sentinel.InsufficientBuffers
	// ErrNoMemory is returned when the kernel cannot back a grant of segments.
	ErrNoMemory error = sentinel.NoMemory
	// ErrQuotaExceeded is returned when a limit of the daemon is reached; the
	// message names the limit.
	ErrQuotaExceeded error = sentinel.New("quota exceeded")
	// ErrRecordTooLarge is returned for a record of 2 GiB or more, the reach of
	// its length prefix, and by a gate for one beyond its MaxRecordLength.
	ErrRecordTooLarge error = sentinel.New("record too large")
	// ErrEventTooLarge is returned for an event that does not fit an event slot.
	ErrEventTooLarge error = sentinel.EventTooLarge
	// ErrFault is returned when shared memory faulted under an access, such as one whose
	// owner has cut it off.
	ErrFault error = sentinel.Fault
	// ErrReleased is returned when a buffer is used or released after its last
	// reference was released.
	ErrReleased error = sentinel.Released
	// ErrTooManyBuffersHeld is returned by a gate when the user keeps more buffers
	// of a channel than half of its share of the pool, or keeps one for so long that
	// the producer waits for what it holds back.
	ErrTooManyBuffersHeld error = sentinel.New("too many buffers held")
)

// Errors about use and state.
var (
	// ErrInvalidArgument is returned for a parameter outside its range; the
	// message names parameter, value and range.
	ErrInvalidArgument error = sentinel.InvalidArgument
	// ErrFinished is returned by a write after Finish.
	ErrFinished error = sentinel.New("partition already finished")
	// ErrOutcomeUnknown is returned by Finish, together with the reason, when
	// end-of-partition is published but nobody has acknowledged it: whether consumers
	// have read or will read a whole stream is not known. Finish may be called again.
	ErrOutcomeUnknown error = sentinel.New("the end is published, and whether it is read is not known")
	// ErrConcurrentUse is returned when two goroutines write to one partition or read
	// one gate at a time, when a second writer is made for a partition, and when a gate
	// is read from within a loop over its records.
	ErrConcurrentUse error = sentinel.New("only one at a time may write or read")
	// ErrClosed is returned by any call after Close, of the thing itself or of the
	// client that it belongs to.
	ErrClosed error = sentinel.Closed
	// ErrConsumerLost is returned to a producer whose consumer went away before
	// the end, unless the partition's policy is to discard. A consumer of which its
	// producer was told so gets it too, if it is there nevertheless.
	ErrConsumerLost error = sentinel.New("consumer lost")
	// ErrDraining is returned when a partition is created while the daemon takes no
	// new ones, since it is about to end. Partitions that are there go on.
	ErrDraining error = sentinel.New("the daemon is draining")
	// ErrDaemonLost is returned by new calls after the connection to the daemon
	// has ended. Attached producers and consumers go on.
	ErrDaemonLost error = sentinel.New("connection to the shuffle daemon lost")
	// ErrVersionMismatch is returned when client and daemon share no protocol
	// version; the message names both.
	ErrVersionMismatch error = sentinel.New("protocol version mismatch")
	// ErrProtocol is returned when a peer sent or wrote something that the
	// protocol or the layout does not allow.
	ErrProtocol error = sentinel.New("protocol violation")
	// ErrCorruptRecord is returned when a record's framing does not fit its bytes,
	// or its codec could not read or write it: it returned an error or panicked.
	ErrCorruptRecord error = sentinel.New("corrupt record")
	// ErrIncomplete is returned, with the first error of a channel, by a gate whose
	// channels have all ended, but not all of them with all of their data.
	ErrIncomplete error = sentinel.New("all channels have ended, and not all of them are whole")
	// ErrRecordsLeft is returned by a gate that is read by buffers and by records in
	// turn, where the other way of reading has not finished what it has begun.
	ErrRecordsLeft error = sentinel.New("the gate is in the middle of records")
)
