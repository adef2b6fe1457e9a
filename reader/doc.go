// Package reader is the consumer's side of a shuffle.
//
// An [InputGate] reads the subpartitions of many partitions, its channels, as one
// stream of buffers and events ([InputGate.Next]), one buffer a turn from each
// channel that has some. [Records] reads the records in them: in place, wherever
// a record lies in one buffer. A [GateSpec] says what to read; package client
// opens gates.
//
// A channel that runs empty asks its producer for a wake-up and costs nothing
// until then. A busy one lets a batch build up first, since reading what another
// core is just writing is slow; a flush, an event or the end wakes it at once, and
// so does a wait of a few milliseconds.
//
// What a channel delivers ends in one of two ways: with end-of-partition, after
// which the gate goes on with the others and returns io.EOF when all have ended;
// or with an error that says why there is no more, after everything that was
// committed. Errors are those of package shuffle; a lost producer is never taken
// for the end.
//
// Buffers and records lie in memory that the producer's process shares. A record
// is valid until the next step of the loop; a buffer until it is released, also
// after the gate was closed. Whoever keeps too many buffers of a channel gets
// shuffle.ErrTooManyBuffersHeld before its producer starves.
package reader
