package partition_test

import (
	"testing"

	"shuffled/internal/partition"
	"shuffled/internal/test/misuse"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{(*partition.ConsumerLink)(nil), (*partition.ResultPartition)(nil),
			(*partition.ResultSubpartition)(nil)},
		Functions: map[string]any{
			"NewConsumerLink": partition.NewConsumerLink, "NewResultPartition": partition.NewResultPartition,
			"NewSubpartitionView": partition.NewSubpartitionView,
		},
		Left: map[string]string{
			"SubpartitionView": "a gate's, made by its constructor only, asked for each buffer",
		},
		Errors: []error{shuffle.ErrInvalidArgument, shuffle.ErrClosed, shuffle.ErrProtocol},
	})
}
