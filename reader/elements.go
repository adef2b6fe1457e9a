package reader

import (
	"context"
	"fmt"
	"iter"

	"shuffled/internal/gate"
	"shuffled/shuffle"
)

// An Element is a record or an event of one channel of a gate.
type Element[T any] struct {
	// Channel is the index of the input that it came from.
	Channel int
	// Event is what came, nil if it is a record.
	Event shuffle.Event
	// Record is valid until the next step of the loop, unless the codec copies or the
	// element is retained.
	Record T

	loop *elementLoop[T] // of a record
	step uint64
}

// Retain keeps the memory that a record lies in until release is called. It is called in
// the step of the loop that gave the element, where the loop's body runs; release may be
// called from any goroutine, later than the gate's Close too, and further calls of it do
// nothing.
//
// The whole buffer is kept, and counts once as one of those that a user may keep,
// however many of its records are retained: see shuffle.InputGate. If they are too
// many, the loop ends with shuffle.ErrTooManyBuffersHeld; release some and range again.
// A record that spans buffers, and each of a gate that copies records, lies in memory of
// the process's own, which nobody counts. So does an event, for which Retain does nothing.
//
// An element of an earlier step, or of no loop, is shuffle.ErrInvalidArgument.
func (e Element[T]) Retain() (release func(), err error) {
	switch {
	case e.Event != nil:
		return func() {}, nil
	case e.loop == nil:
		return nil, fmt.Errorf("retain an Element that comes from no loop: %w", shuffle.ErrInvalidArgument)
	case e.loop.step != e.step:
		return nil, fmt.Errorf("retain an Element of an earlier step of its loop: %w", shuffle.ErrInvalidArgument)
	}
	return e.loop.Retain()
}

// An elementLoop is a loop that knows which step it is at.
type elementLoop[T any] struct {
	gate.Loop[T]
	step uint64
}

// Elements is Records with the channel of each record, and with the events of all
// channels where they stand among the records; the end of a channel is one of them,
// shuffle.EndOfPartition. A barrier holds up its channel until ResumeConsumption of the
// gate, which the body may call. Beside an error there is no element.
func Elements[T any](ctx context.Context, g shuffle.InputGate, codec shuffle.Decoder[T]) iter.Seq2[Element[T], error] {
	return func(yield func(Element[T], error) bool) {
		own, err := ownGate(g)
		if err != nil {
			yield(Element[T]{}, err)
			return
		}
		var loop elementLoop[T]
		loop.Run(ctx, own, codec, func(rec T, err error) bool {
			if err != nil {
				return yield(Element[T]{}, err)
			}
			loop.step++
			return yield(Element[T]{Channel: loop.Channel(), Record: rec, loop: &loop, step: loop.step}, nil)
		}, func(channel int, e shuffle.Event) bool {
			return yield(Element[T]{Channel: channel, Event: e}, nil)
		})
	}
}
