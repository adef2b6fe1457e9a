package page

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersHaveThreeSignificantDigits(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0", 1: "1.00", 0.00031: "0.000310", 9.996: "10.0", 99.95: "100", 12.34: "12.3", 999.4: "999",
		999.6: "1,000", 1234567: "1,234,567",
		1e-9: "1.00e-09", 1e20: "1.00e+20",
	} {
		require.Equal(t, want, significant(v), "%v", v)
	}
	require.Equal(t, "12", whole(12))
	require.Equal(t, "12.5", whole(12.5))
	require.Equal(t, "1,000,000", whole(1e6))
	require.Equal(t, "<0.00001", whole(6e-8), "how much less does not matter")
}

func TestNumbersOfAxesAreShort(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.6000000000000001: "0.6", 5: "5", 2e4: "20k", 5e6: "5M", 1e9: "1G",
		0.00001: "0.00001", 1e-9: "1e-09"} {
		require.Equal(t, want, short(v), "%v", v)
	}
}

func TestTimesAndBytesHaveAUnitThatFits(t *testing.T) {
	for ns, want := range map[float64]string{0: "0 ns", 150: "150 ns", 6180: "6.18 µs", 2.5e6: "2.50 ms",
		3e9: "3.00 s"} {
		require.Equal(t, want, duration(ns, significant))
	}
	for n, want := range map[float64]string{0: "0 B", 100: "100 B", 1536: "1.50 KiB", 3 << 20: "3.00 MiB",
		5 << 30: "5.00 GiB"} {
		require.Equal(t, want, bytes(n, significant))
	}
	require.Equal(t, "4.1 – 5 µs", span("4.1 µs", "5 µs"))
	require.Equal(t, "900 ns – 5 µs", span("900 ns", "5 µs"))
	require.Equal(t, "4 – 5", span("4", "5"))
}
