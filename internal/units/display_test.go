package units

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersForPeople(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234",
		-123: "-123"} {
		require.Equal(t, want, GroupDigits(n))
	}
	for n, want := range map[int64]string{5: "5 bytes", 1536: "1.5 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"} {
		require.Equal(t, want, FormatBytes(n))
	}
	for v, want := range map[float64]string{153e6: "153", 47.26e6: "47.3", 1.5e6: "1.50", 0.25e6: "0.250"} {
		require.Equal(t, want, FormatMillions(v))
	}
	require.Equal(t, "1 file", Plural(1, "file"))
	require.Equal(t, "2,000 files", Plural(2000, "file"))
}
