package cli

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEditDistance(t *testing.T) {
	for _, row := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"memory", "memory", 0}, {"memroy", "memory", 1}, {"memry", "memory", 1},
		{"mmory", "memory", 1},
		{"mexory", "memory", 1}, {"kitten", "sitting", 3}, {"abcdef", "fedcba", 5},
	} {
		require.Equal(t, row.want, editDistance(row.a, row.b), "%s %s", row.a, row.b)
		require.Equal(t, row.want, editDistance(row.b, row.a), "%s %s", row.b, row.a)
	}
}
