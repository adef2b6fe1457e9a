package shuffle_test

import (
	"testing"

	"shuffled/internal/misuse"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{
			(*shuffle.AttemptError)(nil), (*shuffle.Bytes)(nil), (*shuffle.ConsumerLink)(nil), (*shuffle.CustomEvent)(nil),
			(*shuffle.EndOfPartition)(nil), (*shuffle.PartitionID)(nil), (*shuffle.PartitionInfo)(nil), (*shuffle.PartitionKey)(nil), (*shuffle.PartitionSpec)(nil),
			(*shuffle.PartitionState)(nil), (*shuffle.ResultPartition)(nil), (*shuffle.ResultPartitionType)(nil),
			(*shuffle.ResultSubpartition)(nil), (*shuffle.Strings)(nil),
		},
		Functions: map[string]any{
			"DecodeEvent": shuffle.DecodeEvent, "EncodeEvent": shuffle.EncodeEvent, "NamedPartitionID": shuffle.NamedPartitionID,
			"NewConsumerLink": shuffle.NewConsumerLink, "NewPartitionID": shuffle.NewPartitionID, "NewResultPartition": shuffle.NewResultPartition,
			"NewSubpartitionView": shuffle.NewSubpartitionView,
			"ParsePartitionID":    shuffle.ParsePartitionID, "PartitionIDFromBytes": shuffle.PartitionIDFromBytes,
		},
		Left: map[string]string{
			"SubpartitionView":  "a gate's, made by its constructor only, asked for each buffer",
			"AttemptError(nil)": "is no error",
		},
		Errors: []error{shuffle.ErrInvalidArgument, shuffle.ErrClosed, shuffle.ErrProtocol},
		Fine:   []string{"AttemptError.Unwrap", "Bytes.Decode", "Strings.Decode", "PartitionID.MarshalText"},
	})
}
