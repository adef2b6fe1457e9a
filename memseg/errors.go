package memseg

import "shuffled/internal/sentinel"

// Errors of shared objects and their mappings.
var (
	// ErrClosed is returned by any call after Close.
	ErrClosed error = sentinel.Closed
	// ErrNotMemfd is returned for a descriptor that is not a shared memory object.
	ErrNotMemfd error = sentinel.New("not a shared memory object")
	// ErrNotSealed is returned for an object whose size its creator could change.
	ErrNotSealed error = sentinel.New("shared memory object is not sealed")
	// ErrRegionSize is returned when the size of an object is not the declared one.
	ErrRegionSize error = sentinel.New("wrong region size")
	// ErrNoMemory is returned when the kernel cannot back memory.
	ErrNoMemory error = sentinel.NoMemory
	// ErrNoHugePages is returned where the kernel has no huge pages for shared
	// objects.
	ErrNoHugePages error = sentinel.New("no huge pages for shared memory")
	// ErrUnknownHolders is returned where the kernel does not tell whether others
	// hold a shared object.
	ErrUnknownHolders error = sentinel.New("holders of the shared memory object are not known")
	// ErrLayout is returned for a region whose header this version cannot read or
	// does not believe.
	ErrLayout error = sentinel.New("bad region layout")
	// ErrFault is returned when shared memory faulted under an access.
	ErrFault error = sentinel.Fault
)

// Errors of segments and buffers.
var (
	// ErrFreed is returned by an access to a segment that was freed.
	ErrFreed error = sentinel.New("segment was freed")
	// ErrOutOfBounds is returned for an index or range outside a segment or region.
	ErrOutOfBounds error = sentinel.New("out of bounds")
	// ErrBuilderFinished is returned by a write to a finished buffer builder.
	ErrBuilderFinished error = sentinel.New("buffer builder is finished")
	// ErrReleased is returned when a buffer is used or released after its last
	// reference was released.
	ErrReleased error = sentinel.Released
	// ErrCorrupt is returned when a word or descriptor that a peer wrote is
	// outside what the layout allows.
	ErrCorrupt error = sentinel.New("peer wrote an impossible value")
	// ErrWithdrawn is returned to the reader of a queue whose producer was told that
	// it is gone.
	ErrWithdrawn error = sentinel.New("the producer was told that this consumer is gone, and uses its memory for others")
	// ErrQueueFull is returned when a descriptor queue or its event slots have
	// no room until the consumer releases some.
	ErrQueueFull error = sentinel.New("descriptor queue is full")
	// ErrEventTooLarge is returned for an event that does not fit an event slot.
	ErrEventTooLarge error = sentinel.EventTooLarge
)
