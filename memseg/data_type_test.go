package memseg_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
)

func TestDataTypeHasTheNumberNameAndTraitsUsersKnow(t *testing.T) {
	type traits struct {
		buffer, event, blocking, priority, announced, partial bool
	}
	for number, want := range []struct {
		dataType memseg.DataType
		name     string
		traits
	}{
		{memseg.NoDataType, "NONE", traits{}},
		{memseg.DataBuffer, "DATA_BUFFER", traits{buffer: true, partial: true}},
		{memseg.EventBuffer, "EVENT_BUFFER", traits{event: true}},
		{memseg.PrioritizedEventBuffer, "PRIORITIZED_EVENT_BUFFER", traits{event: true, priority: true}},
		{memseg.AlignedCheckpointBarrier, "ALIGNED_CHECKPOINT_BARRIER", traits{event: true, blocking: true}},
		{memseg.TimeoutableAlignedCheckpointBarrier, "TIMEOUTABLE_ALIGNED_CHECKPOINT_BARRIER",
			traits{event: true, blocking: true, announced: true}},
		{memseg.RecoveryCompletion, "RECOVERY_COMPLETION", traits{event: true, blocking: true}},
		{memseg.EndOfSegment, "END_OF_SEGMENT", traits{event: true}},
		{memseg.DataBufferWithClearEnd, "DATA_BUFFER_WITH_CLEAR_END", traits{buffer: true}},
		{memseg.EndOfData, "END_OF_DATA", traits{event: true}},
		{memseg.EndOfPartition, "END_OF_PARTITION", traits{event: true}},
		{memseg.RecoveryMetadata, "RECOVERY_METADATA", traits{event: true}},
	} {
		t.Run(want.name, func(t *testing.T) {
			got := want.dataType
			require.EqualValues(t, number, got)
			require.True(t, got.Valid())
			require.Equal(t, want.name, got.String())
			require.Equal(t, want.traits, traits{
				buffer:    got.IsBuffer(),
				event:     got.IsEvent(),
				blocking:  got.IsBlockingUpstream(),
				priority:  got.HasPriority(),
				announced: got.RequiresAnnouncement(),
				partial:   got.MayEndInPartialRecord(),
			})
		})
	}
}

func TestEveryByteIsAConsistentDataTypeOrInvalid(t *testing.T) {
	for value := range 256 {
		got := memseg.DataType(value)
		require.Equal(t, value <= 11, got.Valid(), "value %d", value)
		require.False(t, got.HasPriority() && got.RequiresAnnouncement(), "%v has priority and is announced", got)
		require.False(t, got.IsBuffer() && got.IsEvent(), "%v is buffer and event", got)
		require.Equal(t, got.Valid() && got != memseg.NoDataType, got.IsBuffer() || got.IsEvent(), "%v", got)
		onlyEvents := got.IsBlockingUpstream() || got.HasPriority() || got.RequiresAnnouncement()
		require.False(t, onlyEvents && !got.IsEvent(), "%v", got)
		require.False(t, got.MayEndInPartialRecord() && !got.IsBuffer(), "%v", got)
	}
}

func TestUnknownDataTypeIsNamedByItsNumber(t *testing.T) {
	require.Equal(t, "DataType(12)", memseg.DataType(12).String())
	require.Equal(t, "DataType(255)", memseg.DataType(255).String())
}
