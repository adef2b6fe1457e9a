// Package foreigntext makes texts that others chose, such as the causes of failures,
// fit for errors, logs and terminals.
package foreigntext

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Graphic returns text with everything escaped that is not graphic, as Go does in
// strings: control characters and with them the ends of lines, escape sequences,
// directions of writing, bytes that are not UTF-8. Once more, it changes nothing.
func Graphic(text string) string {
	isPlain := utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool { return !strconv.IsGraphic(r) }) < 0
	if isPlain {
		return text
	}
	var b strings.Builder
	for rest := text; rest != ""; {
		r, n := utf8.DecodeRuneInString(rest)
		if (r != utf8.RuneError || n > 1) && strconv.IsGraphic(r) {
			b.WriteString(rest[:n])
		} else {
			quoted := strconv.QuoteToGraphic(rest[:n])
			b.WriteString(quoted[1 : len(quoted)-1])
		}
		rest = rest[n:]
	}
	return b.String()
}

// Cut returns text as valid UTF-8 of at most so many bytes, 3 or more: what is longer
// is cut between two runes, and ends with a mark.
func Cut(text string, most int) string {
	const mark = "…"
	isLonger := len(text) > most
	if isLonger {
		text = text[:most] // of a long text, no more is looked at
	}
	text = strings.ToValidUTF8(text, string(utf8.RuneError)) // which may be longer
	if !isLonger && len(text) <= most {
		return text
	}
	end := min(len(text), most-len(mark))
	for end > 0 && end < len(text) && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}
