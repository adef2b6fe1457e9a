package registry_test

import (
	"testing"

	"shuffled/internal/daemon/registry"
	"shuffled/internal/test/misuse"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types:     []any{(*registry.PartitionKey)(nil)},
		Functions: map[string]any{"NewResultPartitionManager": registry.NewResultPartitionManager},
		Left: map[string]string{
			"HostedPartition":        "the daemon's, made by a registry only",
			"ResultPartitionManager": "the daemon's, made by its constructor only",
			"SubpartitionRequest":    "the daemon's, made by a registry only",
		},
	})
}
