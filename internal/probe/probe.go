package probe

// Every is how many buffers of a queue there are to one that is marked: a call takes
// a microsecond while somebody looks on, and many of them on a virtual machine.
const Every = 64

// Marks reports whether the buffer of an ordinal is one that is marked, at both ends
// of its way.
func Marks(ordinal uint64) bool { return ordinal%Every == 0 }

// Publish marks that a producer has made a buffer visible to its consumer. It is
// called once for each buffer that Marks chooses, right before the store that
// publishes it: afterwards the consumer could be the first to call. It costs about a
// nanosecond while nobody looks on. Any goroutine may call it.
//
// region names the queue in shared memory that the buffer is in and ordinal the
// buffer in it: the pair is used once, and is the same for the Consume of that
// buffer. bytes is how much of the buffer can be read.
//
// It must not be inlined, nor grow its stack, which would begin it a second time.
//
//go:noinline
//go:nosplit
//go:norace
func Publish(region, ordinal, bytes uint64) {}

// Consume marks that a consumer has taken a buffer, whose region and ordinal are
// those of its Publish. It is called once for each of those, before the first of its
// bytes is read.
//
//go:noinline
//go:nosplit
//go:norace
func Consume(region, ordinal, bytes uint64) {}
