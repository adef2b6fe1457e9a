// Package memseg is the memory under a shuffle: sealed shared objects and their
// mappings ([Memfd], [Region]), the layout of what stands in them
// ([PartitionLayout], [GateLayout]), segments and the buffers in them
// ([MemorySegment], [BufferBuilder], [BufferConsumer], [Buffer]), the queues that
// hand buffers from one process to another ([QueueWriter], [QueueReader]) and the
// [Doorbell] that wakes a sleeper.
//
// Two rules hold everywhere. Every shared word that matters has exactly one
// writing process, so a process may die between any two instructions. And
// whatever another process wrote is loaded once into a local copy, checked, and
// only then used: an impossible value is [ErrCorrupt], never a fault.
//
// Slices of a mapped region are valid as long as a reference of the [Region] is
// held. After the last one the memory is unmapped, and touching a slice that was
// kept faults. Buffers hold what they need.
package memseg
