package shuffle

import "context"

// An InputGate reads the subpartitions of many partitions as one stream of
// buffers and events, fairly: one buffer a turn from each channel that has some.
// A channel without news costs nothing. The rules are those of Flink's
// SingleInputGate. reader.Records reads the records in it.
//
// Package client makes them. Nothing else implements the interface, which may gain
// methods: reader.Records takes no other gate.
//
// One goroutine at a time calls Next, TryNext, IsAvailable, WaitAvailable,
// ResumeConsumption or ranges over Records; a call beside another one is ErrConcurrentUse. Close may come from others.
// After Close every call returns ErrClosed; buffers that the user retained stay readable
// until they are released.
//
// A gate ends with io.EOF if every channel has delivered all of its partition, and
// only then. Once one of them has lost something, which its ChannelError tells at
// that moment, the others can be read to their ends, and then each call returns
// ErrIncomplete with the first of the errors that have ended a channel; if there is none, with
// that of the first record that was passed over.
//
// A user may keep some buffers of a channel, at least one and up to half of the
// subpartition's share of the producer's pool, while it reads on. Since buffers are
// given back in their order, one that is kept for long holds back all that are read
// after it. Whoever keeps too many, or one that the producer has come to wait for, gets
// ErrTooManyBuffersHeld, which says how many may be held back and why: for want of
// segments, or because the producer has a quota, MaxBuffersPerChannel. Release and read
// on.
//
// A fault of the memory that a producer shares, under the gate, a record or a codec,
// is that channel's error and wraps ErrFault. Not covered are the bytes of a
// buffer that Next has handed out, and those of a record in another goroutine than
// that of the loop: whoever reads them there may set debug.SetPanicOnFault.
type InputGate interface {
	// NumChannels returns the number of inputs.
	NumChannels() int
	// Next returns the next buffer or event, which the caller must release, and waits for
	// one until ctx ends, which it looks at first: nothing is taken under a context that
	// has ended.
	//
	// It returns io.EOF once every channel has ended and none has lost anything. The
	// *ChannelError of a channel is returned once when it happens, after everything that
	// its producer had committed, and the other channels can be read on. When all have
	// ended, it is ErrIncomplete with that error, for every further call.
	//
	// What a loop over Records has left comes before anything that Next could return:
	// ErrRecordsLeft, until one has ranged over Records again.
	Next(ctx context.Context) (BufferOrEvent, error)
	// TryNext is Next without waiting: ok is false when nothing can be read now.
	TryNext() (b BufferOrEvent, ok bool, err error)
	// IsAvailable reports whether there is something to read or to tell: TryNext, or a loop,
	// is worth a try. A gate that has ended, failed or was closed is available. The body of
	// a loop may ask, whether the loop would go on without waiting. It is false of a gate
	// that was not opened, and while another goroutine reads.
	//
	// It takes nothing, so now and then there turns out to be less: an event that Records
	// passes over, the beginning of a record.
	IsAvailable() bool
	// WaitAvailable waits until IsAvailable, or until ctx ends, which it looks at first.
	// reader.WaitAny waits for several gates.
	WaitAvailable(ctx context.Context) error
	// ResumeConsumption lets a channel go on after a barrier. A channel that is not
	// there, has no producer yet or has ended is ErrInvalidArgument.
	ResumeConsumption(channel int) error
	// Close ends all channels: their producers see a lost consumer, unless the
	// channel had ended. A call that is waiting returns ErrClosed. A second
	// Close returns it too. What a loop over Records has left is dropped; one that runs
	// ends before its next buffer.
	Close() error
}
