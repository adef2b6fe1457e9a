package memseg

import (
	"testing"

	"shuffled/internal/misuse"
)

func TestNothingIsRefusedByName(t *testing.T) {
	const (
		inside  = "over the words of a region whose header was checked; no user has one"
		checked = "of a region whose header was checked"
	)
	misuse.Check(t, misuse.Package{
		Types: []any{
			(*Access)(nil), (*AccessError)(nil), (*Buffer)(nil), (*BufferBuilder)(nil), (*BufferConsumer)(nil), (*DataType)(nil),
			(*Memfd)(nil), (*MemorySegment)(nil), (*Position)(nil), (*PositionMarker)(nil), (*Region)(nil), (*Slice)(nil),
		},
		Functions: map[string]any{
			"ChargedCgroup": ChargedCgroup, "CheckHost": CheckHost, "CreateMemfd": CreateMemfd, "CreateOpenMemfd": CreateOpenMemfd,
			"DecodeGateHeader": DecodeGateHeader, "DecodePartitionHeader": DecodePartitionHeader, "DoorbellSize": DoorbellSize, "FaultOf": FaultOf,
			"GivesHugePages": GivesHugePages, "LiveMappings": LiveMappings, "Nap": Nap, "NewBuffer": NewBuffer,
			"NewBufferBuilder": NewBufferBuilder, "NewBufferConsumer": NewBufferConsumer, "NewDoorbell": NewDoorbell, "NewGateLayout": NewGateLayout,
			"NewHeapRegion": NewHeapRegion, "NewPartitionLayout": NewPartitionLayout, "NewPositionMarker": NewPositionMarker, "NewSegment": NewSegment,
			"NewStaticBufferConsumer": NewStaticBufferConsumer, "ReleasesToWaitFor": ReleasesToWaitFor,
			"SupportsFutexWaitMany": SupportsFutexWaitMany, "SupportsNoExecSeal": SupportsNoExecSeal, "TellsHolders": TellsHolders,
		},
		Left: map[string]string{
			"AccessError(nil)":   "is no error",
			"BufferBuilder(nil)": "records are written by its methods, which look at nothing that they need not",
			"MemorySegment(nil)": "its scalars are inlined; what is freed, as the zero value, is looked at",
			"Doorbell":           inside, "EventSlots": inside, "QueueReader": inside, "QueueWriter": inside, "Stopwatch": inside, "Word": inside, "Word32": inside,
			"Region.Word": checked, "Region.Word32": checked, "GateLayout": checked, "PartitionLayout": checked,
			"NewChannelWords": checked, "NewEventSlots": checked, "NewGateWords": checked, "NewPartitionWords": checked, "NewQueueReader": checked,
			"NewQueueWriter": checked, "NewStopwatch": checked, "ReadPartitionStats": checked, "ReadQueueStats": checked, "ReadStopwatch": checked,
			"UnreadSegments":       checked,
			"ReceiveMemfd":         "takes descriptor 0 over",
			"RecoverFault":         "is deferred",
			"SetScheduler":         "is for a build of the tests of schedules",
			"BufferConsumer.Reset": "makes a consumer of one that is there", "BufferConsumer.ResetStatic": "the same",
		},
		Errors: []error{ErrClosed, ErrReleased, ErrFreed, ErrOutOfBounds, ErrRegionSize, ErrLayout, ErrConsumerExists},
		Fine: []string{
			"AccessError.Unwrap", "BufferBuilder.Append", "BufferBuilder.AppendAndCommit", "BufferBuilder.CreateBufferConsumer",
			"BufferBuilder.CreateBufferConsumerFromBeginning", "FaultOf", "MemorySegment.EqualTo", "MemorySegment.Free", "Region.Slice", "Slice.Slice",
		},
	})
}
