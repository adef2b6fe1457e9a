package shuffle_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestPartitionSpecIsChecked(t *testing.T) {
	valid := shuffle.PartitionSpec{ID: shuffle.NamedPartitionID("p"), Subpartitions: 1}.WithDefaults()
	require.NoError(t, valid.Validate())
	require.Equal(t, shuffle.PipelinedBounded, valid.Type)
	for _, row := range []struct {
		change func(s *shuffle.PartitionSpec)
		field  string // in the message, or "" for a valid spec
	}{
		{func(s *shuffle.PartitionSpec) { s.ID = shuffle.PartitionID{} }, "neither ID nor Name is set"},
		{func(s *shuffle.PartitionSpec) { s.Subpartitions = 0 }, "Subpartitions is 0"},
		{func(s *shuffle.PartitionSpec) { s.Subpartitions = -1 }, "Subpartitions is -1"},
		{func(s *shuffle.PartitionSpec) { s.Subpartitions = shuffle.MaxSubpartitions }, ""},
		{func(s *shuffle.PartitionSpec) { s.Subpartitions = shuffle.MaxSubpartitions + 1 },
			"Subpartitions is 32769, want 1 to 32768"},
		{func(s *shuffle.PartitionSpec) { s.Type = shuffle.Pipelined }, ""},
		{func(s *shuffle.PartitionSpec) { s.Type = 3 }, "type 3"},
		{func(s *shuffle.PartitionSpec) { s.Name = strings.Repeat("n", shuffle.MaxNameLength) }, ""},
		{func(s *shuffle.PartitionSpec) { s.Name = strings.Repeat("n", shuffle.MaxNameLength+1) }, "Name of 129 bytes"},
		{func(s *shuffle.PartitionSpec) { s.Name = "\xff" }, "Name of 1 bytes"},
		{func(s *shuffle.PartitionSpec) { s.Token = strings.Repeat("t", shuffle.MaxTokenLength) }, ""},
		{func(s *shuffle.PartitionSpec) { s.Token = strings.Repeat("t", shuffle.MaxTokenLength+1) },
			"Token of 65 bytes"},
		{func(s *shuffle.PartitionSpec) { s.Token = "\xff" }, "Token of 1 bytes"},
		{func(s *shuffle.PartitionSpec) { s.BuffersPerChannel = -1 }, "BuffersPerChannel is -1"},
		{func(s *shuffle.PartitionSpec) { s.BuffersPerChannel = 1<<20 + 1 }, "BuffersPerChannel is 1048577"},
		{func(s *shuffle.PartitionSpec) { s.FloatingBuffers = -1 }, "FloatingBuffers is -1"},
		{func(s *shuffle.PartitionSpec) { s.FloatingBuffers = 1<<20 + 1 }, "FloatingBuffers is 1048577"},
		{func(s *shuffle.PartitionSpec) { s.MaxBuffersPerChannel = -1 }, "MaxBuffersPerChannel is -1"},
		{func(s *shuffle.PartitionSpec) { s.OnConsumerLost = shuffle.DiscardOnConsumerLost }, ""},
		{func(s *shuffle.PartitionSpec) { s.OnConsumerLost = 2 }, "OnConsumerLost is 2"},
		{func(s *shuffle.PartitionSpec) {
			s.AllowedUIDs, s.AllowedGIDs = make([]uint32, 128), make([]uint32, 128)
		}, ""},
		{func(s *shuffle.PartitionSpec) {
			s.AllowedUIDs, s.AllowedGIDs = make([]uint32, 128), make([]uint32, 129)
		}, "257 allowed"},
	} {
		spec := valid
		row.change(&spec)
		err := spec.Validate()
		if row.field == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
		require.ErrorContains(t, err, row.field)
	}
}

func TestPartitionTypes(t *testing.T) {
	for _, row := range []struct {
		typ     shuffle.ResultPartitionType
		name    string
		bounded bool
		valid   bool
	}{
		{0, "ResultPartitionType(0)", false, false},
		{shuffle.Pipelined, "PIPELINED", false, true},
		{shuffle.PipelinedBounded, "PIPELINED_BOUNDED", true, true},
		{3, "ResultPartitionType(3)", false, false},
	} {
		require.Equal(t, row.name, row.typ.String())
		require.Equal(t, row.bounded, row.typ.IsBounded())
		require.Equal(t, row.valid, row.typ.Validate() == nil)
	}
	require.EqualValues(t, 1, shuffle.Pipelined, "part of the protocol")
	require.EqualValues(t, 2, shuffle.PipelinedBounded)
}
