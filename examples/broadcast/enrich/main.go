// Command enrich is a worker of the broadcast: it reads the whole table and then looks up
// its own words in it, line by line from its standard input.
//
//	enrich TASK
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: enrich TASK")
		os.Exit(2)
	}
	if err := enrich(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "enrich:", err)
		os.Exit(1)
	}
}

func enrich(ctx context.Context, task string) error {
	index, err := strconv.Atoi(task)
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	g, err := c.OpenGate(ctx, shuffle.GateSpec{
		Name: "broadcast/enrich-" + task, Inputs: []shuffle.Input{{Name: "broadcast/table", Subpartition: index}},
	})
	if err != nil {
		return err
	}
	defer g.Close()
	table := map[string]string{}
	for row, err := range reader.Records(ctx, g, shuffle.Strings{}) {
		if err != nil {
			return err
		}
		key, value, _ := strings.Cut(row, "=")
		table[key] = value
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		fmt.Printf("%s %s\n", lines.Text(), table[lines.Text()])
	}
	return lines.Err()
}
