// Command sort is a consumer of the sort: it sorts the keys of its range and prints them.
// What the tasks print, in their order, is all keys in order.
//
//	sort TASK GENERATORS
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
)

// A keyDecoder reads a key of eight bytes.
type keyDecoder struct{}

func (keyDecoder) Decode(src []byte) (uint64, error) {
	if len(src) != 8 {
		return 0, fmt.Errorf("a key has 8 bytes, not %d", len(src))
	}
	return binary.BigEndian.Uint64(src), nil
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: sort TASK GENERATORS")
		os.Exit(2)
	}
	if err := sort(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "sort:", err)
		os.Exit(1)
	}
}

func sort(ctx context.Context, task, generators string) error {
	index, err := strconv.Atoi(task)
	if err != nil {
		return err
	}
	n, err := strconv.Atoi(generators)
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
		inputs = append(inputs, shuffle.Input{Name: fmt.Sprint("sort/generate-", i), Subpartition: index})
	}
	g, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: inputs, Name: "sort/sort-" + task})
	if err != nil {
		return err
	}
	defer g.Close()
	var keys []uint64
	for key, err := range reader.Records(ctx, g, keyDecoder{}) {
		if err != nil {
			return err
		}
		keys = append(keys, key)
	}
	slices.Sort(keys)
	out := bufio.NewWriter(os.Stdout)
	for _, key := range keys {
		fmt.Fprintf(out, "%016x\n", key)
	}
	return out.Flush()
}
