package foreigntext

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func TestWhatIsNotGraphicIsEscaped(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		`plain "text", c:\dir, ü, 世`: `plain "text", c:\dir, ü, 世`,
		"a\x1b[2Jb\nc\x00\x7f":       `a\x1b[2Jb\nc\x00\x7f`,
		"\u009b2J\u202e\U000e0001":   `\u009b2J\u202e\U000e0001`,
		"a\xff\xc3":                  `a\xff\xc3`,
		"\ufffd":                     "\ufffd",
	} {
		require.Equal(t, want, Graphic(text))
		require.Equal(t, want, Graphic(Graphic(text)))
	}
}

func TestCutTextsAreValidAndNoLongerThanTheyMay(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "12345678": "12345678", "123456789": "12345…", "1234äää": "1234…", "12345世世": "12345…", "世世世": "世…",
		"\xff\xff": "�", "\xffa\xffa\xff": "�a…", "1234567\xff": "12345…", strings.Repeat("\xff", 1<<20): "�…",
	} {
		got := Cut(text, 8)
		require.Equal(t, want, got, "%q", text)
		require.LessOrEqual(t, len(got), 8)
		require.True(t, utf8.ValidString(got))
	}
}
