package client_test

import (
	"context"
	"fmt"
	"log"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A producer and a consumer in one process, with a daemon of their own.
func Example() {
	ctx := context.Background()
	c, err := client.Embedded(client.EmbeddedConfig{Memory: 64 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	id := shuffle.NamedPartitionID("example/map-0")
	gate, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id, Subpartition: 0}}})
	if err != nil {
		log.Fatal(err)
	}
	defer gate.Close()
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	if err != nil {
		log.Fatal(err)
	}
	w, err := writer.New(p, shuffle.Strings{}, writer.KeyGroups(writer.HashString, 128))
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close() // and the partition
	if err := w.Emit(ctx, "hello"); err != nil {
		log.Fatal(err)
	}
	if err := w.Finish(ctx); err != nil {
		log.Fatal(err)
	}
	for record, err := range reader.Records(ctx, gate, shuffle.Strings{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(record)
	}
	// Output: hello
}
