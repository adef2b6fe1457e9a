// Command orders sends the other side of the join: orders, by the number of their customer.
//
//	orders JOINERS ORDERS CUSTOMERS
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

// An Order is sent as JSON.
type Order struct {
	Customer int64
	Cents    int64
}

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: orders JOINERS ORDERS CUSTOMERS")
		os.Exit(2)
	}
	if err := send(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "orders:", err)
		os.Exit(1)
	}
}

func send(ctx context.Context, args []string) error {
	var numbers [3]int64
	for i := range numbers {
		n, err := strconv.ParseInt(args[i], 10, 64)
		if err != nil {
			return err
		}
		numbers[i] = n
	}
	joiners, orders, customers := int(numbers[0]), numbers[1], numbers[2]
	if customers < 1 {
		return fmt.Errorf("%d customers, want 1 or more", customers)
	}
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{Name: "join/orders", Subpartitions: joiners})
	if err != nil {
		return err
	}
	byCustomer := writer.KeyGroups(func(o Order) uint32 { return writer.HashInt64(o.Customer) }, 128)
	w, err := writer.NewAppending(p, shuffle.JSON[Order]{}, byCustomer)
	if err != nil {
		return err
	}
	defer w.Close()
	for i := range orders {
		if err := w.Emit(ctx, Order{Customer: i % customers, Cents: i}); err != nil {
			return err
		}
	}
	return w.Finish(ctx)
}
