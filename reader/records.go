package reader

import (
	"context"
	"fmt"
	"iter"

	"shuffled/internal/gate"
	"shuffled/shuffle"
)

// Records returns the records of all channels of a gate as they come, until the
// gate has ended. Events are passed over, and barriers do not hold up their channel.
// A record, and what it refers to, may lie in shared memory: it is valid until the
// next step of the loop, unless the codec copies.
//
// An error ends the loop: that of ctx, shuffle.ErrConcurrentUse, shuffle.ErrRecordsLeft where
// Next has handed out the beginning of a record, or the *ChannelError of a
// channel (after the records that its producer had committed). Ranging over the
// gate again, after an error, a break, or a panic of the body that was recovered,
// goes on with the next record. A loop ends without an error only if every channel
// has delivered all of its records: after a loss, it ends with
// shuffle.ErrIncomplete and the first error each time.
//
// A record that the codec refuses with an error, or on which it panics, is lost, and
// its channel goes on with the next one: shuffle.ErrCorruptRecord. A channel whose
// framing is lost, or that has a record longer than the gate's MaxRecordLength, has
// ended. Who passes over refused records looks for shuffle.ErrIncomplete first: it
// comes with the first of them, and ranging on after it would have no end.
//
// No record is made of memory that the daemon has taken away, as it does a second
// after an operator has released the partition: shuffle.ErrPartitionReleased comes
// instead. The one record that the body has at that moment may turn to zeros under it,
// unless the gate copies records; nothing comes after it.
//
// ctx is looked at before each buffer and, within a large one, every 32 KiB.
//
// The body must not read the gate in another way, or range over it once more: that
// is shuffle.ErrConcurrentUse. It may Close it.
//
// The gate is one of client.OpenGate: any other, none, and no codec are
// shuffle.ErrInvalidArgument.
func Records[T any](ctx context.Context, g shuffle.InputGate, codec shuffle.Decoder[T]) iter.Seq2[T, error] {
	own, err := ownGate(g)
	if err != nil {
		return func(yield func(T, error) bool) {
			var zero T
			yield(zero, err)
		}
	}
	return gate.Records(ctx, own, codec)
}

// ownGate returns the gate itself; what makes of none an error is what reads it.
func ownGate(g shuffle.InputGate) (*gate.InputGate, error) {
	own, ok := g.(*gate.InputGate)
	if g != nil && !ok {
		return nil, fmt.Errorf("read records: %T is no gate of client.OpenGate: %w", g, shuffle.ErrInvalidArgument)
	}
	return own, nil
}
