package daemon

import (
	"testing"

	"shuffled/internal/test/misuse"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{(*FieldError)(nil), (*Server)(nil)},
		Functions: map[string]any{
			"CheckHost": CheckHost, "LimitNames": LimitNames, "NewServer": NewServer, "RejectReasons": RejectReasons,
		},
		Left:   map[string]string{"FieldError(nil)": "is no error"},
		Rest:   "it takes descriptors over or starts goroutines",
		Fine:   []string{"FieldError.Unwrap"},
		Errors: []error{shuffle.ErrInvalidArgument, shuffle.ErrClosed, shuffle.ErrProtocol},
	})
}
