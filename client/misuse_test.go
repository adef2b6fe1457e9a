package client

import (
	"context"
	"io/fs"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/misuse"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	t.Setenv(SocketVariable, filepath.Join(t.TempDir(), "nobody"))
	misuse.Check(t, misuse.Package{
		Types: []any{(*Client)(nil)},
		Functions: map[string]any{
			"Dial": Dial, "Embedded": Embedded, "WithLogger": WithLogger, "WithName": WithName,
			"WithOperator": WithOperator, "WithWait": WithWait,
			"WithSocket": WithSocket,
		},
		Errors: []error{shuffle.ErrInvalidArgument, fs.ErrNotExist},
	})
}

// What a creation that was given up has left is waited for under a context too.
func TestCreationWithoutAContextWaitsForNothing(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	c.mu.Lock()
	c.undoing[s.ID] = make(chan struct{})
	c.mu.Unlock()
	var noContext context.Context
	_, err := c.CreatePartition(noContext, s)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
}
