package bench

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func countsOf(words ...string) *WordCounts {
	counts := NewWordCounts()
	for _, word := range words {
		counts.Add([]byte(word))
	}
	return counts
}

func TestCountsKeepTheirOwnCopyOfAWord(t *testing.T) {
	word := []byte("cat")
	counts := NewWordCounts()
	counts.Add(word)
	copy(word, "dog")
	counts.Add(word)
	require.EqualValues(t, 1, counts.Count("cat"))
	require.EqualValues(t, 1, counts.Count("dog"))
	require.EqualValues(t, 2, counts.Total)
	require.Equal(t, 2, counts.Distinct())
}

func TestMergedCountsAddUp(t *testing.T) {
	counts := countsOf("a", "b", "a")
	counts.Merge(countsOf("b", "c", "c").Words())
	require.EqualValues(t, 6, counts.Total)
	require.Equal(t, 3, counts.Distinct())
	require.Empty(t, counts.Differences(countsOf("a", "a", "b", "b", "c", "c")))
}

func TestTopIsMostFrequentFirstThenInOrderOfBytes(t *testing.T) {
	counts := countsOf("b", "a", "c", "c", "B")
	require.Equal(t, []CountedWord{{"c", 2}, {"B", 1}, {"a", 1}}, counts.Top(3))
	require.Len(t, counts.Top(99), 4)
	require.Empty(t, counts.Top(0))
	require.Empty(t, NewWordCounts().Top(3))
}

func TestDifferencesNameMoreLessMissingAndUnexpected(t *testing.T) {
	got, want := countsOf("more", "more", "less", "same", "new"), countsOf("more", "less", "less", "same", "gone")
	require.Equal(t, []WordDifference{
		{"gone", 0, 1}, {"less", 1, 2}, {"more", 2, 1}, {"new", 1, 0},
	}, got.Differences(want))
}

func TestWordsAreShownSoThatATerminalCanShowThem(t *testing.T) {
	for word, want := range map[string]string{
		"plain":                  "plain",
		"café":                   "café",
		"\xff\x1b":               `"\xff\x1b"`,
		strings.Repeat("ab", 50): strings.Repeat("ab", 30) + "... (100 bytes)",
	} {
		require.Equal(t, want, printableWord(word))
	}
}
