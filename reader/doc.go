// Package reader is the consumer's side of a shuffle.
//
// A [shuffle.InputGate] reads the subpartitions of many partitions, its channels, as
// one stream of buffers and events ([shuffle.InputGate.Next]), one buffer a turn from
// each channel that has some. [Records] reads the records in them: in place, wherever
// a record lies in one buffer. [Elements] reads them with the channel of each and with
// the events among them, so that one gate joins records of several types; an [Element]
// that is retained stays readable. A [shuffle.GateSpec] says what to read; package client
// opens gates.
//
// [WaitAny] waits until one of several gates has something to read.
//
// A channel that runs empty asks its producer for a wake-up and costs nothing
// until then. A busy one lets a batch build up first, since reading what another
// core is just writing is slow; a flush, an event or the end wakes it at once, and
// so does a wait of a few milliseconds.
//
// What a channel delivers ends in one of two ways: with end-of-partition, or with a
// [shuffle.ChannelError] that says why there is no more, after everything that was
// committed. Either way the gate goes on with the others. When all have ended it
// returns io.EOF, if all were whole, and else shuffle.ErrIncomplete with the first
// of these errors, for ever: a loss is never taken for the end. Errors are those of
// package shuffle.
//
// Buffers and records lie in memory that the producer's process shares. A record
// is valid until the next step of the loop, or until it is released if it was retained;
// a buffer until it is released, also after the gate was closed. A user may keep some
// buffers while it reads on; the gate says how many, and what becomes of those who keep
// too many.
package reader
