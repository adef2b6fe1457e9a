package reader_test

import (
	"testing"

	"shuffled/internal/misuse"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{(*reader.BufferOrEvent)(nil), (*reader.ChannelError)(nil), (*reader.GateSpec)(nil), (*reader.InputGate)(nil)},
		Functions: map[string]any{
			"NewInputGate": reader.NewInputGate, "Records": reader.Records[[]byte],
		},
		Left:   map[string]string{"ChannelError(nil)": "is no error"},
		Errors: []error{shuffle.ErrInvalidArgument, memseg.ErrReleased},
		Fine:   []string{"ChannelError.Unwrap"},
	})
}
