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

// One gate joins records of two types: channel 0 has names, as text, and channel 1
// ages, as numbers. Each side has a codec of its own.
func ExampleElements() {
	ctx := context.Background()
	c, err := client.Embedded(client.EmbeddedConfig{Memory: 16 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	names, ages := shuffle.NamedPartitionID("job-7/names"), shuffle.NamedPartitionID("job-7/ages")
	write(ctx, c, names, "1 Ada", "2 Grace")
	write(ctx, c, ages, "\x01\x24", "\x02\x55")

	g, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: names}, {Partition: ages}}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	nameOf, ageOf, ended := map[byte]string{}, map[byte]byte{}, 0
	for e, err := range reader.Elements(ctx, g, shuffle.Bytes{}) {
		switch {
		case err != nil:
			log.Fatal(err)
		case e.Event != nil:
			ended++ // no other event was sent than shuffle.EndOfPartition
		case e.Channel == 0:
			text, err := shuffle.Strings{}.Decode(e.Record) // a copy, which may be kept
			if err != nil {
				log.Fatal(err)
			}
			nameOf[text[0]-'0'] = text[2:]
		case e.Channel == 1:
			ageOf[e.Record[0]] = e.Record[1]
		}
	}
	for id := range byte(3) {
		if name, ok := nameOf[id]; ok {
			fmt.Println(name, ageOf[id])
		}
	}
	fmt.Println(ended, "channels have ended")

	// Output:
	// Ada 36
	// Grace 85
	// 2 channels have ended
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
