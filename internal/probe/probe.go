package probe

// Publish marks that a producer has made a buffer visible to its consumer. It is
// called once a buffer, right before the store that publishes it, and costs about a
// nanosecond while nobody looks on, a microsecond or more while somebody does. Any
// goroutine may call it.
//
// region names the shared memory that the buffer is in and ordinal the buffer in
// it: the pair is used once, and is the same for the Consume of that buffer. bytes
// is the size of what the buffer holds.
//
//go:noinline
//go:nosplit
//go:norace
func Publish(region, ordinal, bytes uint64) {}

// Consume marks that a consumer has taken a buffer, whose region, ordinal and bytes
// are those of its Publish. It is called once a buffer, before the first of its
// bytes is read.
//
//go:noinline
//go:nosplit
//go:norace
func Consume(region, ordinal, bytes uint64) {}
