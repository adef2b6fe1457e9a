package shuffle_test

import (
	"testing"

	"shuffled/internal/test/misuse"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{
			(*shuffle.AttemptError)(nil), (*shuffle.BufferOrEvent)(nil), (*shuffle.Bytes)(nil),
			(*shuffle.ChannelError)(nil),
			(*shuffle.CustomEvent)(nil), (*shuffle.EndOfPartition)(nil), (*shuffle.GateSpec)(nil),
			(*shuffle.PartitionID)(nil),
			(*shuffle.PartitionInfo)(nil), (*shuffle.PartitionSpec)(nil), (*shuffle.PartitionState)(nil),
			(*shuffle.JSON[string])(nil), (*shuffle.ResultPartitionType)(nil), (*shuffle.Strings)(nil),
		},
		Functions: map[string]any{
			"DecodeEvent": shuffle.DecodeEvent, "EncodeEvent": shuffle.EncodeEvent,
			"NamedPartitionID": shuffle.NamedPartitionID,
			"NewPartitionID":   shuffle.NewPartitionID, "ParsePartitionID": shuffle.ParsePartitionID,
		},
		Left: map[string]string{
			"AttemptError(nil)": "is no error", "ChannelError(nil)": "is no error",
			"JSON.Decode": "its errors are those of encoding/json",
		},
		Errors: []error{shuffle.ErrInvalidArgument, shuffle.ErrProtocol, memseg.ErrReleased},
		Fine: []string{
			"AttemptError.Unwrap", "Bytes.Decode", "ChannelError.Unwrap", "JSON.Append", "PartitionID.MarshalText",
			"Strings.Decode",
		},
	})
}
