package writer_test

import (
	"testing"

	"shuffled/internal/test/misuse"
	"shuffled/shuffle"
	"shuffled/writer"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{(*writer.RecordWriter[[]byte])(nil), (*writer.RecordWriter[string])(nil)},
		Functions: map[string]any{
			"Broadcast": writer.Broadcast[[]byte], "Custom": writer.Custom[[]byte],
			"DefaultMaxParallelism": writer.DefaultMaxParallelism,
			"Forward":               writer.Forward[[]byte], "HashBool": writer.HashBool, "HashBytes": writer.HashBytes,
			"HashInt32": writer.HashInt32,
			"HashInt64": writer.HashInt64, "HashString": writer.HashString, "KeyGroup": writer.KeyGroup,
			"KeyGroupRange": writer.KeyGroupRange,
			"KeyGroups":     writer.KeyGroups[[]byte], "New": writer.New[[]byte],
			"NewAppending":  writer.NewAppending[[]byte],
			"OperatorIndex": writer.OperatorIndex, "Rebalance": writer.Rebalance[[]byte],
			"WithBufferTimeout": writer.WithBufferTimeout,
		},
		Errors: []error{shuffle.ErrInvalidArgument},
	})
	for _, selector := range []writer.ChannelSelector[int]{
		writer.Forward[int](), writer.Rebalance[int](), writer.Custom[int](nil), writer.KeyGroups[int](nil, 0),
	} {
		if err := selector.Setup(0); err == nil {
			t.Errorf("%T takes no subpartitions", selector)
		}
	}
}
