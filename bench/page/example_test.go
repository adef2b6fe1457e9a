package page_test

import (
	"bytes"
	"fmt"
	"strings"

	"shuffled/bench/page"
	"shuffled/bench/results"
)

func ExampleWrite() {
	f := results.New("throughput")
	for _, size := range []int{100, 8000} {
		f.Add(results.Settings{Transport: "shm", RecordSize: size},
			results.Round{results.RecordsPerS: 6e9 / float64(size)})
	}
	f.Summarise()
	var out bytes.Buffer
	if err := page.Write(&out, []page.Source{{Name: "a.json", File: f}}); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(strings.Count(out.String(), `<svg class="plot"`), "plot")
	// Output: 1 plot
}
