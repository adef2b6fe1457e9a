// Command customers sends one side of the join: customers, by their number.
//
//	customers JOINERS CUSTOMERS
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

// A Customer is sent as JSON, so whoever reads it needs its fields and not this program.
type Customer struct {
	Number int64
	Name   string
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: customers JOINERS CUSTOMERS")
		os.Exit(2)
	}
	if err := send(context.Background(), os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "customers:", err)
		os.Exit(1)
	}
}

func send(ctx context.Context, joiners, customers string) error {
	n, err := strconv.Atoi(joiners)
	if err != nil {
		return err
	}
	most, err := strconv.ParseInt(customers, 10, 64)
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{Name: "join/customers", Subpartitions: n})
	if err != nil {
		return err
	}
	byNumber := writer.KeyGroups(func(c Customer) uint32 { return writer.HashInt64(c.Number) }, 128)
	w, err := writer.NewAppending(p, shuffle.JSON[Customer]{}, byNumber)
	if err != nil {
		return err
	}
	defer w.Close()
	for number := range most {
		if err := w.Emit(ctx, Customer{Number: number, Name: fmt.Sprint("customer ", number)}); err != nil {
			return err
		}
	}
	return w.Finish(ctx)
}
