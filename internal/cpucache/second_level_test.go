package cpucache

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSecondLevel(t *testing.T) {
	require.GreaterOrEqual(t, SecondLevel(), 64<<10)
	for s, want := range map[string]int{
		"2048K\n": 2 << 20, "512K": 512 << 10, "64K": 64 << 10,
		"": Unknown, "K": Unknown, "2M": Unknown, "-1K": Unknown, "0K": Unknown, "16K": Unknown, "99999999K": Unknown,
	} {
		require.Equal(t, want, parse(s), "%q", s)
	}
}
