// Command generate is a producer of the sort: it makes random keys and sends each to the
// task that has its range.
//
//	generate TASK SORTERS KEYS
package main

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"

	"shuffled/client"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A keyCodec writes a key as eight bytes.
type keyCodec struct{}

func (keyCodec) Size(uint64) int                      { return 8 }
func (keyCodec) Append(dst []byte, key uint64) []byte { return binary.BigEndian.AppendUint64(dst, key) }

func (keyCodec) Decode(src []byte) (uint64, error) {
	if len(src) != 8 {
		return 0, fmt.Errorf("a key has 8 bytes, not %d", len(src))
	}
	return binary.BigEndian.Uint64(src), nil
}

// byRange gives each subpartition as many keys.
func byRange(key uint64, subpartitions int) int {
	index, _ := bits.Mul64(key, uint64(subpartitions))
	return int(index)
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: generate TASK SORTERS KEYS")
		os.Exit(2)
	}
	if err := generate(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func generate(ctx context.Context, args []string) error {
	var numbers [3]int
	for i := range numbers {
		n, err := strconv.Atoi(args[i])
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	task, sorters, keys := numbers[0], numbers[1], numbers[2]
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{Name: fmt.Sprint("sort/generate-", task),
		Subpartitions: sorters})
	if err != nil {
		return err
	}
	w, err := writer.New(p, keyCodec{}, writer.Custom(byRange))
	if err != nil {
		return err
	}
	defer w.Close()
	random := rand.New(rand.NewPCG(uint64(task), 0)) // the same keys in each run
	for range keys {
		if err := w.Emit(ctx, random.Uint64()); err != nil {
			return err
		}
	}
	return w.Finish(ctx)
}
