package memseg

import (
	"testing"

	"shuffled/internal/test/misuse"
)

func TestNothingIsRefusedByName(t *testing.T) {
	const checked = "of a region whose header was checked"
	misuse.Check(t, misuse.Package{
		Types: []any{
			(*Access)(nil), (*Buffer)(nil), (*BufferBuilder)(nil), (*BufferConsumer)(nil), (*DataType)(nil),
			(*Memfd)(nil), (*MemorySegment)(nil), (*Position)(nil), (*PositionMarker)(nil), (*Region)(nil),
		},
		Functions: map[string]any{
			"ChargedCgroup": ChargedCgroup, "CheckHost": CheckHost, "CreateMemfd": CreateMemfd,
			"CreateOpenMemfd":  CreateOpenMemfd,
			"DecodeGateHeader": DecodeGateHeader, "DecodePartitionHeader": DecodePartitionHeader,
			"DoorbellSize": DoorbellSize, "FaultOf": FaultOf,
			"GivesHugePages": GivesHugePages, "LiveMappings": LiveMappings, "Nap": Nap, "NewBuffer": NewBuffer,
			"NewBufferBuilder": NewBufferBuilder, "NewBufferConsumer": NewBufferConsumer, "NewDoorbell": NewDoorbell,
			"NewGateLayout": NewGateLayout,
			"NewHeapRegion": NewHeapRegion, "NewPartitionLayout": NewPartitionLayout,
			"NewPositionMarker": NewPositionMarker, "NewSegment": NewSegment,
			"NewStaticBufferConsumer": NewStaticBufferConsumer, "ReleasesToWaitFor": ReleasesToWaitFor,
			"SupportsFutexWaitMany": SupportsFutexWaitMany, "SupportsNoExecSeal": SupportsNoExecSeal,
			"TellsHolders": TellsHolders,
		},
		Left: map[string]string{
			"BufferBuilder(nil)": "records are written by its methods, which look at nothing that they need not",
			"MemorySegment(nil)": "pools make them, and no user has one",
			"Region.Word":        checked, "Region.Word32": checked,
			"BufferConsumer.Reset": "makes a consumer of one that is there", "BufferConsumer.ResetStatic": "the same",
		},
		Rest:   "it is about the words of regions whose headers were checked, of which no user has one, or takes descriptors over",
		Errors: []error{ErrClosed, ErrReleased, ErrFreed, ErrOutOfBounds, ErrRegionSize, ErrLayout},
		Fine: []string{
			"BufferBuilder.Append", "FaultOf", "MemorySegment.Bytes", "MemorySegment.Free",
		},
	})
}
