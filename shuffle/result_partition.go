package shuffle

import (
	"context"
	"time"
)

// A ResultPartition is the producer's end of a partition: it writes records and
// events into segments of the shared region and queues them for the consumers of
// its subpartitions. The life of a partition and the rules of emit, broadcast,
// flush and finish are those of Flink's pipelined result partitions.
//
// Package client makes them. Nothing else implements the interface, which may gain
// methods: writer.New takes no other partition.
//
// One goroutine at a time writes (EmitRecord, BroadcastRecord, BroadcastEvent, Reserve,
// WaitAvailable, Finish). A call that finds another one at it, or a record that another one has
// reserved, is ErrConcurrentUse and has written nothing. Commit and Abort are for who
// has reserved the record, or was given it. Flush, FlushAll, Fail, Release, Close and
// the counters may be used from any goroutine; to stop a writer that is blocked, cancel
// its context, or Fail, Release or Close the partition. After Close every call returns
// ErrClosed, and what is written to memory that Reserve has returned goes nowhere: it
// stays this process's alone, for as long as the partition can be reached.
//
// A call without a context is ErrInvalidArgument. What ends the partition, such as a
// newer attempt, a lost consumer or an operator, is the error of all later writes. A
// fault of the mapping in a call ends the partition with ErrFault, but for bytes
// that are written into a buffer that has room, by Reserve and in broadcast records:
// that kills the process, unless the goroutine has set debug.SetPanicOnFault.
type ResultPartition interface {
	// Spec returns what the partition was created from, with its defaults.
	Spec() PartitionSpec
	// ID returns the partition's id.
	ID() PartitionID
	// NumSubpartitions returns the number of subpartitions.
	NumSubpartitions() int

	// EmitRecord writes a record, which already holds its length prefix, to one
	// subpartition. The prefix, four bytes, big-endian, is the caller's and is not looked
	// at: if it is wrong, consumers get ErrCorruptRecord or other records; RecordWriter
	// and Reserve write it themselves. A record may span buffers. When no segment is free
	// it first flushes all subpartitions and then waits until consumers release some or
	// ctx ends. The record is copied and may be used again at once.
	//
	// ctx is looked at before a record that needs a new segment, and while waiting: if
	// it has ended before the record is begun, nothing of it is written. If it ends
	// while the record's rest waits, or anything else fails in the middle of a record,
	// nothing more can be written: this and all later calls return the error.
	//
	// A subpartition out of range is ErrInvalidArgument and a record of more than
	// MaxRecordLength ErrRecordTooLarge, before anything is taken.
	EmitRecord(ctx context.Context, record []byte, subpartition int) error
	// BroadcastRecord writes a record, which already holds its length prefix, to every
	// subpartition. All share one segment, which returns to the pool after the
	// slowest. Otherwise as EmitRecord: a record that is cut over buffers reaches all
	// subpartitions or ends the partition, for all of them after the same bytes.
	BroadcastRecord(ctx context.Context, record []byte) error
	// BroadcastEvent finishes all open buffers and queues the event behind them in
	// every subpartition, or before everything that is queued if it has priority. It
	// wakes parked consumers.
	//
	// It waits if a consumer leaves all its event slots unread, until there is room in
	// every subpartition. So an error means that no consumer gets the event, and that
	// the partition goes on. The end of the partition is sent by Finish only: as an
	// event it is ErrInvalidArgument, as is nil.
	BroadcastEvent(ctx context.Context, e Event) error

	// Reserve returns n bytes of a segment for a record of that size to one
	// subpartition, to be filled in place: the record is never copied. Commit sends
	// it, Abort drops it; nothing else may be written in between. The record must
	// fit one segment with its four bytes of length, otherwise it is
	// ErrRecordTooLarge and has to be emitted. It waits for a free segment as
	// EmitRecord does. The slice may be written until Commit or Abort; after Close nobody
	// sees what is written.
	Reserve(ctx context.Context, subpartition, n int) ([]byte, error)
	// Commit sends the reserved record. Without one it is ErrInvalidArgument. If the
	// partition has ended meanwhile, the record is dropped and the error is why.
	Commit() error
	// Abort drops the reserved record, if there is one. Its bytes are used again.
	Abort()

	// Flush wakes the consumer of a subpartition for what was written so far. The
	// open buffer stays open.
	Flush(subpartition int) error
	// FlushAll is Flush for every subpartition.
	FlushAll() error
	// IsAvailable reports whether a buffer can be started without waiting. It takes
	// back what consumers have released if that may make the difference. Who only asks
	// does not wait: consumers whose users keep what is lacking are told once a write does.
	IsAvailable() bool
	// WaitAvailable waits until IsAvailable, or until ctx ends, which it looks at first. It
	// is a call of the goroutine that writes; while it waits, all subpartitions are
	// flushed, and buffers of one that has as many as it may are ended. What has ended
	// the partition is its error.
	WaitAvailable(ctx context.Context) error

	// BytesOut counts the bytes of finished buffers times their receivers, events
	// excluded, as Flink's numBytesOut does.
	BytesOut() int64
	// BuffersOut counts finished buffers times their receivers, events excluded.
	BuffersOut() int64
	// BackPressured returns how long the writer was blocked for want of segments, up to
	// now if it is.
	BackPressured() time.Duration

	// Finish ends all open buffers, publishes end-of-partition in every subpartition
	// and has the daemon acknowledge it. The partition stays for its consumers.
	//
	// Whether an error of Finish wraps ErrOutcomeUnknown says how far it came. Without
	// it nothing was published: the partition is as it was, and may be finished, failed
	// or written. With it, the end is published and only its acknowledgement is
	// missing: consumers may read a whole stream. Finish again asks for the
	// acknowledgement again; Fail and writes are ErrFinished.
	//
	// Without its daemon, Finish publishes too and then looks in shared memory: nil
	// means that every consumer has released everything up to the end. Otherwise the
	// error wraps ErrDaemonLost and ErrOutcomeUnknown: a consumer has not come, or has
	// released nothing for half a second, or ctx has ended.
	//
	// After a Finish that returned nil, Finish is ErrFinished. docs/ends.md has a
	// table of all this.
	Finish(ctx context.Context) error
	// Fail ends the partition for a reason that its consumers will see, after what
	// is committed, as ErrPartitionFailed. Later writes return it too; a RecordWriter
	// finds a failure that was not its own with its next buffer or 32 KiB. Once the end
	// of the partition is published it is ErrFinished and changes nothing.
	//
	// The reason is sent also when ctx has ended; the error then is that of ctx and
	// says only that nobody has waited for the acknowledgement. Fail again asks for it
	// again; the first reason stays. Without the daemon it is ErrDaemonLost: consumers
	// get that too, never an end.
	Fail(ctx context.Context, cause error) error
	// Release gives the partition up: consumers that have not reached its end get
	// ErrPartitionReleased, and so do later writes, as after Fail. It is sent also when
	// ctx has ended, see there.
	Release(ctx context.Context) error
	// Close unmaps the partition in this process. Unfinished, it counts as a lost
	// producer to its consumers. It waits for calls that are under way, which are
	// woken, but not for who is filling a buffer outside of a call. A second Close is
	// ErrClosed.
	Close() error
}
