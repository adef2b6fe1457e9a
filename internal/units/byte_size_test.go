package units

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSizesAreReadWithTheirUnits(t *testing.T) {
	for _, row := range []struct {
		text string
		want int64
	}{
		{"0", 0}, {"1", 1}, {"65536", 65536}, {"12B", 12}, {"32KiB", 32 << 10}, {"32kib", 32 << 10}, {"32k", 32 << 10},
		{"64 MiB", 64 << 20}, {" 2GiB ", 2 << 30}, {"1.5GiB", 3 << 29}, {"0.5KiB", 512}, {"3T", 3 << 40},
		{"9223372036854775807", math.MaxInt64},
	} {
		got, err := ParseSize(row.text)
		require.NoError(t, err, row.text)
		require.Equal(t, row.want, got, row.text)
	}
}

func TestBadSizesSayWhatIsWrong(t *testing.T) {
	for _, row := range []struct{ text, want string }{
		{"", "not a number"},
		{"GiB", "not a number"},
		{"-1", "out of range"},
		{"-1KiB", "out of range"},
		{"1,5GiB", "not a number"},
		{"1.GiB", "not a number"},
		{"0x10", "not a number"},
		{"1e3", "not a number"},
		{"NaN", "unknown unit"},
		{"10MB", "did you mean 10MiB?"},
		{"10kb", "did you mean 10KiB?"},
		{"10 parsecs", `unknown unit "parsecs"`},
		{"0.3B", "not a whole number of bytes"},
		{"9223372036854775808", "out of range"},
		{"8388608TiB", "out of range"},
		{"8388608.5TiB", "out of range"},
	} {
		_, err := ParseSize(row.text)
		require.ErrorContains(t, err, row.want, row.text)
	}
}

func TestFormattedSizesReadBack(t *testing.T) {
	for _, row := range []struct {
		n    int64
		want string
	}{{0, "0B"}, {1, "1B"}, {1023, "1023B"}, {1 << 10, "1KiB"}, {3 << 29, "1536MiB"}, {4 << 30, "4GiB"},
		{1 << 40, "1TiB"}, {4096 + 1, "4097B"}} {
		require.Equal(t, row.want, FormatSize(row.n))
		back, err := ParseSize(row.want)
		require.NoError(t, err)
		require.Equal(t, row.n, back)
	}
}

func TestShortSizesRoundToATenth(t *testing.T) {
	for _, row := range []struct {
		n    int64
		want string
	}{{0, "0B"}, {1000, "1000B"}, {1024, "1KiB"}, {1536, "1.5KiB"}, {24684084 << 10, "23.5GiB"}} {
		require.Equal(t, row.want, ShortSize(row.n))
	}
}

func FuzzSizesReadBack(f *testing.F) {
	f.Add("1.5GiB")
	f.Add("65536")
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseSize(text)
		if err != nil {
			return
		}
		require.GreaterOrEqual(t, n, int64(0))
		back, err := ParseSize(FormatSize(n))
		require.NoError(t, err)
		require.Equal(t, n, back)
	})
}
