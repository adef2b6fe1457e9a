// Command count is a reduce task of the word count: it counts the words that all map tasks
// send to it, and prints them.
//
//	count TASK SPLITTERS
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: count TASK SPLITTERS")
		os.Exit(2)
	}
	if err := count(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "count:", err)
		os.Exit(1)
	}
}

func count(ctx context.Context, task, splitters string) error {
	index, err := strconv.Atoi(task)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(splitters)
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	var inputs []shuffle.Input
	for i := range n {
		inputs = append(inputs, shuffle.Input{Name: fmt.Sprint("wordcount/split-", i), Subpartition: index})
	}
	g, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: inputs, Name: "wordcount/count-" + task})
	if err != nil {
		return err
	}
	defer g.Close()
	counts := map[string]int{}
	for word, err := range reader.Records(ctx, g, shuffle.Bytes{}) {
		if err != nil {
			return err // a count of a part of the words is no count
		}
		counts[string(word)]++ // word is valid until the next step
	}
	for word, n := range counts {
		fmt.Println(n, word)
	}
	return nil
}
