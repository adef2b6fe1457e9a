// Command join adds up the orders of each customer: one gate reads records of two types,
// which are told apart by their channel.
//
//	join TASK
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

type customer struct {
	Number int64
	Name   string
}

type order struct {
	Customer int64
	Cents    int64
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: join TASK")
		os.Exit(2)
	}
	if err := join(context.Background(), os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "join:", err)
		os.Exit(1)
	}
}

func join(ctx context.Context, task string) error {
	index, err := strconv.Atoi(task)
	if err != nil {
		return err
	}
	c, err := client.Dial(ctx, client.WithWait())
	if err != nil {
		return err
	}
	defer c.Close()
	const customers = 0 // the index of its input
	g, err := c.OpenGate(ctx, shuffle.GateSpec{Name: "join/join-" + task, Inputs: []shuffle.Input{
		{Name: "join/customers", Subpartition: index},
		{Name: "join/orders", Subpartition: index},
	}})
	if err != nil {
		return err
	}
	defer g.Close()
	names, sums := map[int64]string{}, map[int64]int64{}
	for e, err := range reader.Elements(ctx, g, shuffle.Bytes{}) {
		switch {
		case err != nil:
			return err
		case e.Event != nil:
			// The end of a side is one: whoever joins a part of it may stop waiting here.
		case e.Channel == customers:
			c, err := shuffle.JSON[customer]{}.Decode(e.Record)
			if err != nil {
				return err
			}
			names[c.Number] = c.Name
		default:
			o, err := shuffle.JSON[order]{}.Decode(e.Record)
			if err != nil {
				return err
			}
			sums[o.Customer] += o.Cents
		}
	}
	for number, cents := range sums {
		fmt.Printf("%s: %d\n", names[number], cents)
	}
	return nil
}
