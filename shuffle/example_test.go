package shuffle_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"

	"shuffled/client"
	"shuffled/shuffle"
)

// A record is built in shared memory, and read there. Between records travels an
// event.
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
	defer p.Close()

	for _, text := range []string{"built in place", "and so is this"} {
		record, err := p.Reserve(ctx, 0, len(text))
		if err != nil {
			log.Fatal(err)
		}
		copy(record, text) // whatever fills it: an encoder, a read from a file
		if err := p.Commit(); err != nil {
			log.Fatal(err)
		}
		if err := p.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "page", Body: []byte("end")}); err != nil {
			log.Fatal(err)
		}
	}
	if err := p.Finish(ctx); err != nil {
		log.Fatal(err)
	}

	g, err := c.OpenGate(ctx, shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
	if err != nil {
		log.Fatal(err)
	}
	defer g.Close()
	for {
		b, err := g.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			log.Fatal(err)
		}
		if b.IsEvent() {
			e, err := b.Event()
			if err != nil {
				log.Fatal(err)
			}
			fmt.Printf("event %+v\n", e)
		} else {
			fmt.Printf("record %q behind its length\n", b.Bytes()[4:])
		}
		b.Release()
	}

	// Output:
	// record "built in place" behind its length
	// event {Name:page Body:[101 110 100] Priority:false}
	// record "and so is this" behind its length
	// event {Name:page Body:[101 110 100] Priority:false}
	// event {}
}
