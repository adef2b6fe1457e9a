package memseg

import "fmt"

// DataType says what a buffer holds and how it travels. The value is stored as
// one byte in a descriptor of a shared region, so the numbers are part of the
// layout: they are Flink's ordinals and are never reused.
//
// All methods are pure and may be called from any number of goroutines. A value
// read from shared memory was written by another process and may be anything:
// check it with Valid before relying on it. For a value that is not valid every
// question below is answered with false.
type DataType uint8

const (
	// NoDataType stands where there is no buffer: the type of the next buffer when
	// nothing is queued. No buffer has it.
	NoDataType DataType = 0
	// DataBuffer holds records; its last record may go on in the next buffer.
	DataBuffer DataType = 1
	// EventBuffer holds an event that needs no special treatment.
	EventBuffer DataType = 2
	// PrioritizedEventBuffer holds an event that overtakes the buffers before it.
	PrioritizedEventBuffer DataType = 3
	// AlignedCheckpointBarrier holds a barrier; the subpartition stays blocked
	// after it until its consumer resumes.
	AlignedCheckpointBarrier DataType = 4
	// TimeoutableAlignedCheckpointBarrier is an aligned barrier that may become a
	// priority event; its arrival is announced ahead of it.
	TimeoutableAlignedCheckpointBarrier DataType = 5
	// RecoveryCompletion ends the channel state replayed after a restore and blocks
	// the subpartition until its consumer resumes.
	RecoveryCompletion DataType = 6
	// EndOfSegment ends a segment of a tiered partition.
	EndOfSegment DataType = 7
	// DataBufferWithClearEnd holds records, the last of them whole.
	DataBufferWithClearEnd DataType = 8
	// EndOfData says that the producer has emitted its last record.
	EndOfData DataType = 9
	// EndOfPartition is the last buffer of a subpartition.
	EndOfPartition DataType = 10
	// RecoveryMetadata holds what a consumer needs to go on after a restart of its
	// producer.
	RecoveryMetadata DataType = 11
)

// The traits of a DataType, as bits.
const (
	isBuffer uint8 = 1 << iota
	isEvent
	blocksUpstream
	hasPriority
	requiresAnnouncement
	mayEndInRecord
)

// dataTypes is indexed by DataType. A type that has priority overtakes and so
// cannot be announced: no entry has both traits.
var dataTypes = [...]struct {
	name   string
	traits uint8
}{
	NoDataType:               {"NONE", 0},
	DataBuffer:               {"DATA_BUFFER", isBuffer | mayEndInRecord},
	EventBuffer:              {"EVENT_BUFFER", isEvent},
	PrioritizedEventBuffer:   {"PRIORITIZED_EVENT_BUFFER", isEvent | hasPriority},
	AlignedCheckpointBarrier: {"ALIGNED_CHECKPOINT_BARRIER", isEvent | blocksUpstream},
	TimeoutableAlignedCheckpointBarrier: {"TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER",
		isEvent | blocksUpstream | requiresAnnouncement},
	RecoveryCompletion:     {"RECOVERY_COMPLETION", isEvent | blocksUpstream},
	EndOfSegment:           {"END_OF_SEGMENT", isEvent},
	DataBufferWithClearEnd: {"DATA_BUFFER_WITH_CLEAR_END", isBuffer},
	EndOfData:              {"END_OF_DATA", isEvent},
	EndOfPartition:         {"END_OF_PARTITION", isEvent},
	RecoveryMetadata:       {"RECOVERY_METADATA", isEvent},
}

// Valid reports whether t is a type that this version knows, NoDataType
// included. A queued buffer must also be a buffer or an event.
func (t DataType) Valid() bool { return int(t) < len(dataTypes) }

// IsBuffer reports whether t holds records.
func (t DataType) IsBuffer() bool { return t.has(isBuffer) }

// IsEvent reports whether t holds an event. No type is both buffer and event.
func (t DataType) IsEvent() bool { return t.has(isEvent) }

// IsBlockingUpstream reports whether a subpartition hands out nothing after a
// buffer of type t until its consumer resumes it.
func (t DataType) IsBlockingUpstream() bool { return t.has(blocksUpstream) }

// HasPriority reports whether t overtakes the buffers queued before it.
func (t DataType) HasPriority() bool { return t.has(hasPriority) }

// RequiresAnnouncement reports whether the arrival of t is announced to the
// consumer ahead of the buffers queued before it.
func (t DataType) RequiresAnnouncement() bool { return t.has(requiresAnnouncement) }

// MayEndInPartialRecord reports whether the last record of a buffer of type t
// may go on in the next buffer.
func (t DataType) MayEndInPartialRecord() bool { return t.has(mayEndInRecord) }

// String returns the name Flink's users know.
func (t DataType) String() string {
	if !t.Valid() {
		return fmt.Sprintf("DataType(%d)", uint8(t))
	}
	return dataTypes[t].name
}

func (t DataType) has(trait uint8) bool {
	return t.Valid() && dataTypes[t].traits&trait != 0
}
