// Command split is a map task of the word count: it sends each word of its files to the
// task that counts it.
//
//	split TASK COUNTERS FILE...
package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strconv"

	"shuffled/client"
	"shuffled/shuffle"
	"shuffled/writer"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: split TASK COUNTERS FILE...")
		os.Exit(2)
	}
	if err := split(context.Background(), os.Args[1], os.Args[2], os.Args[3:]); err != nil {
		fmt.Fprintln(os.Stderr, "split:", err)
		os.Exit(1)
	}
}

func split(ctx context.Context, task, counters string, files []string) error {
	n, err := strconv.Atoi(counters)
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{Name: "wordcount/split-" + task, Subpartitions: n})
	if err != nil {
		return err
	}
	w, err := writer.New(p, shuffle.Bytes{}, writer.KeyGroups(writer.HashBytes, 128))
	if err != nil {
		return err
	}
	defer w.Close() // what is not finished by then counts as lost
	for _, name := range files {
		if err := emitWords(ctx, w, name); err != nil {
			return w.Fail(ctx, err) // the counters hear of it
		}
	}
	return w.Finish(ctx)
}

func emitWords(ctx context.Context, w *writer.RecordWriter[[]byte], name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	words := bufio.NewScanner(file)
	words.Split(bufio.ScanWords)
	for words.Scan() {
		if err := w.Emit(ctx, words.Bytes()); err != nil {
			return err
		}
	}
	return words.Err()
}
