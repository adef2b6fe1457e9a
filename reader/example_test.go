package reader_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"slices"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// write produces a partition of one subpartition.
func write(ctx context.Context, c *client.Client, id shuffle.PartitionID, records ...string) {
	p, err := c.CreatePartition(ctx, shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	if err != nil {
		log.Fatal(err)
	}
	w, err := writer.New(p, shuffle.Strings{}, writer.Forward[string]())
	if err != nil {
		log.Fatal(err)
	}
	for _, rec := range records {
		if err := w.Emit(ctx, rec); err != nil {
			log.Fatal(err)
		}
	}
	if err := w.Finish(ctx); err != nil {
		log.Fatal(err)
	}
	if err := w.Close(); err != nil {
		log.Fatal(err)
	}
}

// A gate merges what two producers have written.
func Example() {
	ctx := context.Background()
	c, err := client.Embedded(client.EmbeddedConfig{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	var inputs []shuffle.Input
	for i, records := range [][]string{{"to be", "or not"}, {"that is", "the question"}} {
		id := shuffle.NamedPartitionID(fmt.Sprintf("job-7/map-%d", i))
		write(ctx, c, id, records...)
		inputs = append(inputs, shuffle.Input{Partition: id})
	}

	g, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: inputs})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	var got []string
	for rec, err := range reader.Records(ctx, g, shuffle.Strings{}) {
		if err != nil {
			log.Fatal(err)
		}
		got = append(got, rec) // Strings copies; with Bytes it would lie in shared memory
	}
	slices.Sort(got) // channels are read in turn, each in its order
	fmt.Println(got)

	// Output:
	// [or not that is the question to be]
}

// The layer below records: buffers, which may be kept, and events.
func Example_buffers() {
	ctx := context.Background()
	c, err := client.Embedded(client.EmbeddedConfig{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	id := shuffle.NamedPartitionID("job-7/map-0")
	write(ctx, c, id, "one", "two")
	g, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
	if err != nil {
		log.Fatal(err)
	}

	var kept shuffle.BufferOrEvent
	for {
		b, err := g.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(b.DataType(), b.Len())
		if b.IsEvent() {
			b.Release()
		} else {
			kept = b
		}
	}
	g.Close()
	fmt.Printf("%q\n", kept.Bytes()) // still mapped
	kept.Release()

	// Output:
	// DATA_BUFFER 14
	// END_OF_PARTITION 4
	// "\x00\x00\x00\x03one\x00\x00\x00\x03two"
}
