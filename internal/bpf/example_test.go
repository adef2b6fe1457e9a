package bpf_test

import (
	"fmt"
	"os"
	"time"

	"shuffled/internal/bpf"
)

// A tracer is asked twice, and the difference is what the process in between did.
func Example() {
	tracer, err := bpf.Open(bpf.Options{})
	if err != nil {
		fmt.Println(err) // without root: what is missing
		return
	}
	defer tracer.Close()
	for _, missing := range tracer.Missing() {
		fmt.Println("not measured:", missing)
	}
	if err := tracer.Watch(os.Getpid(), bpf.Producer); err != nil {
		fmt.Println(err)
		return
	}
	before, err := tracer.Counts()
	if err != nil {
		fmt.Println(err)
		return
	}
	time.Sleep(100 * time.Millisecond)
	after, err := tracer.Counts()
	if err != nil {
		fmt.Println(err)
		return
	}
	counts := after.Sub(before)
	producer := counts.Roles[bpf.Producer]
	if producer.Copied != nil {
		fmt.Printf("%d bytes copied to user memory, from the %s\n", producer.Copied.ToUser, counts.CopySource)
	}
	if producer.WakeLatency != nil {
		fmt.Println("half of all wake-ups took up to", producer.WakeLatency.Quantile(0.5))
	}
}

// Three hand-offs took 1 to 2 microseconds and one took four times as long.
func ExampleHistogram() {
	var h bpf.Histogram
	h.Buckets[10] = 3
	h.Buckets[12] = 1
	low, high := h.MeanBounds()
	fmt.Println(h.Count(), h.Quantile(0.5), h.Quantile(1))
	fmt.Println("mean between", low, "and", high)
	// Output:
	// 4 1.706µs 8.191µs
	// mean between 1.792µs and 3.583µs
}
