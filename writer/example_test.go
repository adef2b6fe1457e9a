package writer_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// An Order is a record of the user.
type Order struct {
	ID       uint64
	Customer string
}

// OrderCodec writes an order as its id and the customer's name.
type OrderCodec struct{}

func (OrderCodec) Size(o Order) int { return 8 + len(o.Customer) }

func (OrderCodec) Append(dst []byte, o Order) []byte {
	return append(binary.LittleEndian.AppendUint64(dst, o.ID), o.Customer...)
}

func (OrderCodec) Decode(src []byte) (Order, error) {
	if len(src) < 8 {
		return Order{}, errors.New("order is too short")
	}
	return Order{ID: binary.LittleEndian.Uint64(src), Customer: string(src[8:])}, nil
}

// Orders of one customer go to one consumer.
func Example() {
	ctx := context.Background()
	c, err := client.Embedded(client.EmbeddedConfig{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	id := shuffle.NamedPartitionID("job-7/orders")
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 2})
	if err != nil {
		log.Fatal(err)
	}
	byCustomer := writer.KeyGroups(func(o Order) uint32 { return writer.HashString(o.Customer) }, 128)
	w, err := writer.New(p, OrderCodec{}, byCustomer)
	if err != nil {
		log.Fatal(err)
	}
	for i, customer := range []string{"abc", "hello", "abc", "hello", "a"} {
		if err := w.Emit(ctx, Order{ID: uint64(i), Customer: customer}); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Finish(ctx); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	for subpartition := range 2 {
		g, err := c.OpenGate(ctx,
			shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id, Subpartition: subpartition}}})
		if err != nil {
			log.Fatal(err)
		}
		for o, err := range reader.Records(ctx, g, OrderCodec{}) {
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println(subpartition, o.Customer, o.ID)
		}
		g.Close()
	}

	// Output:
	// 0 hello 1
	// 0 hello 3
	// 1 abc 0
	// 1 abc 2
	// 1 a 4
}

// Records go as JSON, by a codec that may fail. A record that has none is refused, and
// the writer goes on.
func ExampleNewAppending() {
	ctx := context.Background()
	c, err := client.Embedded(client.EmbeddedConfig{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	id := shuffle.NamedPartitionID("job-7/prices")
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	if err != nil {
		log.Fatal(err)
	}
	codec := shuffle.JSON[map[string]float64]{}
	w, err := writer.NewAppending(p, codec, writer.Forward[map[string]float64]())
	if err != nil {
		log.Fatal(err)
	}
	for _, prices := range []map[string]float64{{"tea": 2.5}, {"nothing": math.NaN()}, {"milk": 1}} {
		if err := w.Emit(ctx, prices); errors.Is(err, shuffle.ErrCorruptRecord) {
			fmt.Println("left out")
		} else if err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Finish(ctx); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}

	g, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for prices, err := range reader.Records(ctx, g, codec) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(prices)
	}

	// Output:
	// left out
	// map[tea:2.5]
	// map[milk:1]
}
