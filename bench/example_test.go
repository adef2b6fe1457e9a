package bench_test

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"shuffled/bench"
)

func ExampleWordReader() {
	words, counts := bench.NewWordReader(strings.NewReader("the cat, the hat: the end")), bench.NewWordCounts()
	for {
		word, err := words.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		counts.Add(word)
	}
	for _, w := range counts.Top(2) {
		fmt.Println(w.Count, w.Word)
	}
	// Output:
	// 3 the
	// 1 cat
}
