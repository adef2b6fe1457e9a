package protocodec_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/shuffle/protocodec"
	"shuffled/writer"
)

func Example() {
	ctx := context.Background()
	c, err := client.Embedded(client.EmbeddedConfig{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	id := shuffle.NamedPartitionID("job-7/map-0")
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	if err != nil {
		log.Fatal(err)
	}
	codec := protocodec.Messages[*wrapperspb.StringValue]{}
	w, err := writer.NewAppending(p, codec, writer.Forward[*wrapperspb.StringValue]())
	if err != nil {
		log.Fatal(err)
	}
	for _, text := range []string{"hello", "world"} {
		if err := w.Emit(ctx, wrapperspb.String(text)); err != nil {
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
	for m, err := range reader.Records(ctx, g, codec) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(m.GetValue())
	}

	// Output:
	// hello
	// world
}
