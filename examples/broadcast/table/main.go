// Command table sends a small table to every worker of the broadcast: each record is
// written once, and all workers read it where it lies.
//
//	table WORKERS KEY=VALUE...
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"

	"shuffled/client"
	"shuffled/shuffle"
	"shuffled/writer"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: table WORKERS KEY=VALUE...")
		os.Exit(2)
	}
	if err := send(context.Background(), os.Args[1], os.Args[2:]); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func send(ctx context.Context, workers string, rows []string) error {
	n, err := strconv.Atoi(workers)
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{Name: "broadcast/table", Subpartitions: n})
	if err != nil {
		return err
	}
	w, err := writer.New(p, shuffle.Strings{}, writer.Broadcast[string]())
	if err != nil {
		return err
	}
	defer w.Close()
	for _, row := range rows {
		if err := w.Emit(ctx, row); err != nil {
			return err
		}
	}
	return w.Finish(ctx)
}
