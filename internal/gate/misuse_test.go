package gate_test

import (
	"testing"

	"shuffled/internal/gate"
	"shuffled/internal/test/misuse"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types:     []any{(*gate.InputGate)(nil)},
		Functions: map[string]any{"NewInputGate": gate.NewInputGate, "Records": gate.Records[[]byte]},
		Left:      map[string]string{"Loop": "package reader makes it and runs it before all else"},
		Errors:    []error{shuffle.ErrInvalidArgument},
	})
}
