package memseg_test

import (
	"fmt"

	"shuffled/memseg"
)

// A builder fills a segment; a consumer, here in the same process, reads what is
// committed, in place.
func Example() {
	segment, marker := make([]byte, 1024), memseg.NewPositionMarker()
	builder := memseg.NewBufferBuilder(segment, marker)
	consumer := memseg.NewBufferConsumer(segment, marker, memseg.DataBuffer, nil, 0)

	copy(builder.Reserve(5), "hello")
	builder.Advance(5)
	builder.Commit()
	copy(builder.Reserve(3), "not")
	builder.Advance(3) // written, not committed

	var buffer memseg.Buffer
	if err := consumer.Build(&buffer); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%s, finished: %t\n", buffer.Bytes(), consumer.IsFinished())
	fmt.Println(buffer.Release())
	// Output:
	// hello, finished: false
	// <nil>
}
