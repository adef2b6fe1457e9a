package reader_test

import (
	"testing"

	"shuffled/internal/test/misuse"
	"shuffled/reader"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{(*reader.Element[[]byte])(nil)},
		Functions: map[string]any{"Elements": reader.Elements[[]byte], "Records": reader.Records[[]byte],
			"WaitAny": reader.WaitAny},
		Errors: []error{shuffle.ErrInvalidArgument},
	})
}
