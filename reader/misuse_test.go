package reader_test

import (
	"testing"

	"shuffled/internal/test/misuse"
	"shuffled/reader"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Functions: map[string]any{"Records": reader.Records[[]byte]},
		Errors:    []error{shuffle.ErrInvalidArgument},
	})
}
