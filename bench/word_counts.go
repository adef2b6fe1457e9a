package bench

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// WordCounts counts words. One goroutine uses it.
type WordCounts struct {
	// Total counts all words added.
	Total int64
	index map[string]int
	words []CountedWord
}

// A CountedWord is a word and how often it came.
type CountedWord struct {
	Word  string
	Count int64
}

// NewWordCounts returns counts of nothing.
func NewWordCounts() *WordCounts { return &WordCounts{index: make(map[string]int)} }

// Add counts one word. It copies a word that is new.
func (c *WordCounts) Add(word []byte) {
	c.Total++
	if i, ok := c.index[string(word)]; ok {
		c.words[i].Count++
		return
	}
	c.append(CountedWord{Word: string(word), Count: 1})
}

func (c *WordCounts) append(w CountedWord) {
	c.index[w.Word] = len(c.words)
	c.words = append(c.words, w)
}

// Merge adds counts that were made elsewhere.
func (c *WordCounts) Merge(words []CountedWord) {
	for _, w := range words {
		c.Total += w.Count
		if i, ok := c.index[w.Word]; ok {
			c.words[i].Count += w.Count
		} else {
			c.append(w)
		}
	}
}

// Words returns every word with its count, in no order. The slice is shared.
func (c *WordCounts) Words() []CountedWord { return c.words }

// Distinct counts the words that differ.
func (c *WordCounts) Distinct() int { return len(c.words) }

// Count returns how often a word came.
func (c *WordCounts) Count(word string) int64 {
	if i, ok := c.index[word]; ok {
		return c.words[i].Count
	}
	return 0
}

// Top returns the n words that came most often, the most frequent first, equal
// counts in the order of their bytes.
func (c *WordCounts) Top(n int) []CountedWord {
	top := slices.SortedFunc(slices.Values(c.words), func(a, b CountedWord) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.Word, b.Word))
	})
	return top[:min(max(n, 0), len(top))]
}

// A WordDifference is a word on whose count two counts disagree.
type WordDifference struct {
	Word      string
	Got, Want int64
}

func (d WordDifference) String() string {
	return fmt.Sprintf("%s: %d, single process %d", printableWord(d.Word), d.Got, d.Want)
}

// Differences returns the words whose counts differ from want, in the order of
// their bytes.
func (c *WordCounts) Differences(want *WordCounts) []WordDifference {
	all := make(map[string]struct{})
	for _, counts := range []*WordCounts{c, want} {
		for word := range counts.index {
			all[word] = struct{}{}
		}
	}
	var differ []WordDifference
	for _, word := range slices.Sorted(maps.Keys(all)) {
		if got, want := c.Count(word), want.Count(word); got != want {
			differ = append(differ, WordDifference{Word: word, Got: got, Want: want})
		}
	}
	return differ
}

// printableWord quotes a word that a terminal could not show, and shortens a
// long one.
func printableWord(word string) string {
	const most = 60
	shown := word
	if len(word) > most {
		shown = word[:most]
	}
	if quoted := strconv.Quote(shown); len(quoted) != len(shown)+2 {
		shown = quoted
	}
	if len(word) > most {
		return fmt.Sprintf("%s... (%d bytes)", shown, len(word))
	}
	return shown
}
