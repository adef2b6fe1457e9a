package bench

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
)

func readWords(t *testing.T, r io.Reader) (words []string) {
	t.Helper()
	reader := NewWordReader(r)
	for {
		word, err := reader.Next()
		if err != nil {
			require.ErrorIs(t, err, io.EOF)
			_, err = reader.Next()
			require.ErrorIs(t, err, io.EOF, "the end stays the end")
			return words
		}
		words = append(words, string(word))
	}
}

func TestWordsAreLongestRunsOfWordBytes(t *testing.T) {
	long := strings.Repeat("x", 3*wordBufferSize+1)
	for _, row := range []struct {
		name, text string
		want       []string
	}{
		{"nothing", "", nil},
		{"no word", " .,;\n\t-", nil},
		{"one", "word", []string{"word"}},
		{"between others", " word.", []string{"word"}},
		{"case matters", "The the", []string{"The", "the"}},
		{"digits and underscores", "a1_b2 3 _", []string{"a1_b2", "3", "_"}},
		{"punctuation cuts", "don't e-mail x.y", []string{"don", "t", "e", "mail", "x", "y"}},
		{"letters in UTF-8 stay together", "café, naïve 日本", []string{"café", "naïve", "日本"}},
		{"bytes that are not UTF-8", "a\xffb \x80", []string{"a\xffb", "\x80"}},
		{"all other bytes cut", "a\x00b\x7fc@d[e`f{g/h:i", []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}},
		{"ends of the ranges", "09AZaz", []string{"09AZaz"}},
		{"longer than the buffer", "a " + long + " b", []string{"a", long, "b"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			require.Equal(t, row.want, readWords(t, strings.NewReader(row.text)))
			require.Equal(t, row.want, readWords(t, iotest.DataErrReader(strings.NewReader(row.text))),
				"data with the end")
			if len(row.text) < 1000 {
				require.Equal(t, row.want, readWords(t, iotest.OneByteReader(strings.NewReader(row.text))),
					"byte by byte")
			}
		})
	}
}

func TestWordAcrossTheEndOfTheBufferIsWhole(t *testing.T) {
	for shift := range 5 {
		text := strings.Repeat(" ", wordBufferSize-shift) + "abcd efgh"
		require.Equal(t, []string{"abcd", "efgh"}, readWords(t, strings.NewReader(text)), "%d bytes before the end",
			shift)
	}
}

func TestWordReaderGivesTheWordsBeforeAnError(t *testing.T) {
	broken := errors.New("broken")
	reader := NewWordReader(io.MultiReader(strings.NewReader("one two"), iotest.ErrReader(broken)))
	var words []string
	for range 2 {
		word, err := reader.Next()
		require.NoError(t, err)
		words = append(words, string(word))
	}
	require.Equal(t, []string{"one", "two"}, words)
	_, err := reader.Next()
	require.ErrorIs(t, err, broken)
}

func TestWordReaderCountsBytesAndKeepsTextsApart(t *testing.T) {
	reader := NewWordReader(strings.NewReader("ab"))
	first, err := reader.Next()
	require.NoError(t, err)
	require.Equal(t, "ab", string(first))
	_, err = reader.Next()
	require.ErrorIs(t, err, io.EOF)
	reader.Reset(strings.NewReader("cd "))
	second, err := reader.Next()
	require.NoError(t, err)
	require.Equal(t, "cd", string(second))
	_, err = reader.Next()
	require.ErrorIs(t, err, io.EOF)
	require.EqualValues(t, 5, reader.BytesRead())
}
