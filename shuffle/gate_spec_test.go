package shuffle_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestGateSpecIsChecked(t *testing.T) {
	valid := func() shuffle.GateSpec {
		return shuffle.GateSpec{Inputs: []shuffle.Input{
			{Partition: shuffle.NamedPartitionID("a")}, {Partition: shuffle.NamedPartitionID("b"), Subpartition: 3},
		}}.WithDefaults()
	}
	require.NoError(t, valid().Validate())
	require.Equal(t, shuffle.DefaultInputTimeout, valid().Timeout)
	require.Equal(t, shuffle.MaxRecordLength, valid().MaxRecordLength)
	for _, row := range []struct {
		change func(s *shuffle.GateSpec)
		field  string // in the message, or "" for a valid spec
	}{
		{func(s *shuffle.GateSpec) { s.Inputs = nil }, "0 Inputs"},
		{func(s *shuffle.GateSpec) { s.Inputs = make([]shuffle.Input, shuffle.MaxInputs+1) }, "1048577 Inputs"},
		{func(s *shuffle.GateSpec) { s.Inputs[1].Partition = shuffle.PartitionID{} },
			"neither Inputs[1].Partition nor its Name is set"},
		{func(s *shuffle.GateSpec) { s.Inputs[1].Subpartition = -1 }, "Inputs[1].Subpartition is -1"},
		{func(s *shuffle.GateSpec) { s.Inputs[1].Subpartition = shuffle.MaxSubpartitions - 1 }, ""},
		{func(s *shuffle.GateSpec) { s.Inputs[1].Subpartition = shuffle.MaxSubpartitions },
			"Inputs[1].Subpartition is 32768, want 0 to 32767"},
		{func(s *shuffle.GateSpec) { s.Inputs[0].Token = strings.Repeat("t", shuffle.MaxTokenLength) }, ""},
		{func(s *shuffle.GateSpec) { s.Inputs[0].Token = strings.Repeat("t", shuffle.MaxTokenLength+1) },
			"Inputs[0].Token of 65 bytes"},
		{func(s *shuffle.GateSpec) { s.Inputs[0].Token = "\xff" }, "Inputs[0].Token of 1 bytes"},
		{func(s *shuffle.GateSpec) { s.Name = strings.Repeat("n", shuffle.MaxNameLength) }, ""},
		{func(s *shuffle.GateSpec) { s.Name = strings.Repeat("n", shuffle.MaxNameLength+1) }, "Name of 129 bytes"},
		{func(s *shuffle.GateSpec) { s.Name = "\xff" }, "Name of 1 bytes"},
		{func(s *shuffle.GateSpec) { s.Timeout = -1 }, "Timeout is -1ns"},
		{func(s *shuffle.GateSpec) { s.Timeout = time.Nanosecond }, ""},
		{func(s *shuffle.GateSpec) { s.Timeout = shuffle.MaxInputTimeout }, ""},
		{func(s *shuffle.GateSpec) { s.Timeout = shuffle.MaxInputTimeout + 1 }, "Timeout is 720h0m0.000000001s"},
		{func(s *shuffle.GateSpec) { s.MaxRecordLength = -1 }, "MaxRecordLength is -1, want 0 to 2147483647"},
		{func(s *shuffle.GateSpec) { s.MaxRecordLength = 1 }, ""},
		{func(s *shuffle.GateSpec) { s.MaxRecordLength = shuffle.MaxRecordLength + 1 },
			"MaxRecordLength is 2147483648"},
	} {
		spec := valid()
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
