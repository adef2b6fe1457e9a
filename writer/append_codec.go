package writer

import (
	"context"
	"encoding/binary"
	"fmt"
	"reflect"

	"shuffled/internal/absent"
	"shuffled/internal/sentinel"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// NewAppending is New for a codec that may fail, or does not know the size of a record
// before: protobuf, JSON and their like.
//
// An error of the codec reaches the caller of Emit or Broadcast wrapped, with the type
// of the record and shuffle.ErrCorruptRecord. Nothing of that record is written, and the
// writer goes on with the next one. For a codec that uses the writer while it appends,
// that is shuffle.ErrConcurrentUse.
func NewAppending[T any](p shuffle.ResultPartition, codec shuffle.AppendCodec[T], selector ChannelSelector[T],
	opts ...Option) (
	*RecordWriter[T], error,
) {
	if absent.Is(codec) {
		return nil, fmt.Errorf("the codec of the writer is nil: %w", shuffle.ErrInvalidArgument)
	}
	w, err := New(p, shuffle.Codec[T](sizeless[T]{codec}), selector, opts...)
	if err != nil {
		return nil, err
	}
	w.appends = codec
	return w, nil
}

// A sizeless stands for an AppendCodec where a Codec is asked for the size of a record.
type sizeless[T any] struct{ shuffle.Decoder[T] }

func (sizeless[T]) Size(T) int { return -1 }

// Append is never called, for there is no size.
func (sizeless[T]) Append(dst []byte, _ T) []byte { return dst }

// emitAppended emits a record that the codec gives no size of, which is a broken promise
// unless it is an AppendCodec. The record is serialised before the partition is asked
// for anything.
func (w *RecordWriter[T]) emitAppended(ctx context.Context, rec T, size, subpartition int) error {
	if w.appends == nil {
		return w.checkSize(size)
	}
	if err := w.startLong(); err != nil {
		return err
	}
	defer w.long.Unlock()
	prefix, body, err := w.serializeAppended(rec)
	if err != nil {
		return err
	}
	open, here := w.builders[subpartition], memseg.PlaceOf(&size)
	dst := open.Enter(here, memseg.LengthPrefix+len(body))
	if dst == nil {
		if open, dst, err = w.startRecord(ctx, here, memseg.LengthPrefix+len(body), subpartition); err != nil {
			return w.told(err)
		}
	}
	if dst == nil {
		return w.told(w.emitParts(ctx, prefix, body, subpartition))
	}
	return w.put(open, dst, body, subpartition)
}

// serializeAppended is serialize by the AppendCodec.
func (w *RecordWriter[T]) serializeAppended(rec T) (prefix, body []byte, err error) {
	w.growScratch(0)
	body, err = w.appends.Append(w.scratch, rec)
	if err != nil {
		return nil, nil, fmt.Errorf("partition %s: codec %T cannot append a record of type %v: %w: %w",
			w.label(), w.appends, reflect.TypeFor[T](), shuffle.ErrCorruptRecord, sentinel.Foreign(err))
	}
	if err := w.checkSize(len(body)); err != nil {
		return nil, nil, err
	}
	// What the codec returns may be its own: only memory of the writer's is written again.
	if n := cap(body); n > cap(w.scratch) && n <= keptScratch {
		w.growScratch(n)
	}
	return binary.BigEndian.AppendUint32(w.prefix[:0], uint32(len(body))), body, nil
}
