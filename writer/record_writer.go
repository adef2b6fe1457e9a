package writer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"shuffled/internal/absent"
	"shuffled/internal/partition"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// DefaultBufferTimeout is how long a record waits at most before its consumer is
// woken for it.
const DefaultBufferTimeout = 100 * time.Millisecond

// FlushAlways and FlushNever are the special buffer timeouts: wake the consumer
// after every record, or only when buffers fill.
const (
	FlushAlways time.Duration = 0
	FlushNever  time.Duration = -1
)

// A RecordWriter serialises records into the subpartitions of a partition. A
// record that fits the open buffer is written straight into shared memory; one
// that does not is cut over as many buffers as it needs.
//
// One goroutine at a time writes: Emit, EmitTo, Broadcast, BroadcastEvent, Finish.
// Flush, the counters and Close may be used from any goroutine; to fail a partition
// under its writer, use the Fail of the ResultPartition. A call that comes while another
// one is under way is shuffle.ErrConcurrentUse, and nothing of its record or event is
// written; the one that was there may get it too, of its next record. Under the race
// detector such calls are reported as races besides.
// Goroutines that take turns may write, but those that change with each record go a
// longer way.
//
// A codec that panics, or appends something else than it promised, leaves nothing of
// its record behind; its goroutine goes on with the next one. After a panic, other
// goroutines cannot know that the codec is not at work any more: for them it is
// shuffle.ErrConcurrentUse until that goroutine has emitted to that subpartition again.
// The writer does what Flink's RecordWriter does.
type RecordWriter[T any] struct {
	partition *partition.ResultPartition
	builders  []*memseg.BufferBuilder // of the open buffers that the writer was let into, see told
	selector  ChannelSelector[T]      // nil if every record goes to subpartition 0
	records   int64                   // the writer's own
	isBytes   bool                    // the codec is shuffle.Bytes: T is []byte, and no call is needed
	always    bool
	inCodec   bool // the codec appends to an open buffer, or has panicked in it
	codec     shuffle.Codec[T]
	appends   shuffle.AppendCodec[T] // of NewAppending; codec is a sizeless then

	full    memseg.BufferBuilder // without room
	long    sync.Mutex           // held for a record on the long way: never waited for
	prefix  [memseg.LengthPrefix]byte
	scratch []byte // a record on the long way

	published memseg.Word // records as of the last commit, for other goroutines
	idleNs    atomic.Int64

	flusher *outputFlusher
}

// An Option changes how a RecordWriter works.
type Option func(*options)

type options struct{ timeout time.Duration }

// MinBufferTimeout is the shortest buffer timeout beside FlushAlways: an idle writer
// is looked at that often.
const MinBufferTimeout = time.Millisecond

// WithBufferTimeout sets how long a record may wait before its consumer is woken
// for it: DefaultBufferTimeout if not given, FlushAlways or FlushNever, or any
// duration from MinBufferTimeout on. Other values are shuffle.ErrInvalidArgument.
func WithBufferTimeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// New returns a writer for a partition. The selector chooses the subpartition of
// each record that Emit gets. The writer is the only one that writes to the
// partition: a second one is shuffle.ErrConcurrentUse. Close stops its output flusher.
//
// The partition is one of client.CreatePartition. Any other one, a partition, codec or
// selector that is nil, also as a nil pointer or function in
// the interface, and a selector that refuses the number of subpartitions, are
// shuffle.ErrInvalidArgument.
func New[T any](p shuffle.ResultPartition, codec shuffle.Codec[T], selector ChannelSelector[T],
	opts ...Option) (*RecordWriter[T], error) {
	o := options{timeout: DefaultBufferTimeout}
	for _, opt := range opts {
		if opt == nil {
			return nil, fmt.Errorf("an option of the writer is nil: %w", shuffle.ErrInvalidArgument)
		}
		opt(&o)
	}
	own, ok := p.(*partition.ResultPartition)
	switch {
	case p != nil && !ok:
		return nil, fmt.Errorf("make a writer: %T is no partition of client.CreatePartition: %w", p,
			shuffle.ErrInvalidArgument)
	case own.NumSubpartitions() == 0:
		return nil, fmt.Errorf("the partition of the writer was not created: %w", shuffle.ErrInvalidArgument)
	case absent.Is(codec):
		return nil, fmt.Errorf("the codec of the writer is nil: %w", shuffle.ErrInvalidArgument)
	case absent.Is(selector):
		return nil, fmt.Errorf("the selector of the writer is nil: %w", shuffle.ErrInvalidArgument)
	case o.timeout < 0 && o.timeout != FlushNever:
		return nil, fmt.Errorf("buffer timeout is %v, want -1 (never), 0 (always) or at least %v: %w", o.timeout,
			MinBufferTimeout, shuffle.ErrInvalidArgument)
	case o.timeout > 0 && o.timeout < MinBufferTimeout:
		return nil, fmt.Errorf("buffer timeout is %v, want 0 (always) or at least %v; a number without a unit counts nanoseconds, perhaps %d*time.Millisecond was meant: %w",
			o.timeout, MinBufferTimeout, int64(o.timeout), shuffle.ErrInvalidArgument)
	}
	spec := own.Spec()
	if err := selector.Setup(own.NumSubpartitions()); err != nil {
		return nil, fmt.Errorf("partition %s: %w", spec.Label(), err)
	}
	if err := own.ClaimWriter(); err != nil {
		return nil, err
	}
	w := &RecordWriter[T]{partition: own, codec: codec, selector: selector, always: o.timeout == FlushAlways}
	_, w.isBytes = any(codec).(shuffle.Bytes)
	if _, ok := selector.(forward[T]); ok {
		w.selector = nil
	}
	for range own.NumSubpartitions() {
		w.builders = append(w.builders, &w.full)
	}
	if o.timeout > 0 {
		w.flusher = startFlusher(o.timeout, w.Flush)
	}
	return w, nil
}

// errNoWriter is about a writer that is nil or zero.
var errNoWriter = fmt.Errorf("the RecordWriter was not made, writer.New returns one: %w", shuffle.ErrInvalidArgument)

// check refuses a writer that was not made.
func (w *RecordWriter[T]) check() error {
	if w == nil || w.partition == nil {
		return errNoWriter
	}
	return nil
}

// Emit writes a record to the subpartition that the selector chooses, or to all
// of them if the selector broadcasts. It waits for a free segment until ctx
// ends. After Finish it returns shuffle.ErrFinished.
//
// ctx is looked at when a record needs a new segment, not for each record: after its
// end, what still fits the open buffers is written. The record whose Emit returns
// the error of ctx is not, and the next call may go on.
//
// A record of more than shuffle.MaxRecordLength is shuffle.ErrRecordTooLarge,
// and nothing of it is written. An error while a record is being cut over
// buffers ends the partition, since its reader could not find the next record: all
// later calls return it. What else ends the partition, such as a lost consumer or a
// newer attempt, is found with the next buffer, or 32 KiB, of a subpartition: what was
// emitted before is for nobody then.
//
// What a codec promised and did not keep is shuffle.ErrCorruptRecord; its panic goes
// on to the caller. Either way nothing of the record is written.
//
// A fault of the mapping ends the partition with shuffle.ErrFault where a new buffer
// is started or an old one ended, but kills the process where a record is put into
// an open buffer, unless the goroutine has set debug.SetPanicOnFault.
func (w *RecordWriter[T]) Emit(ctx context.Context, rec T) error { return w.emit(ctx, rec, 0, true) }

// EmitTo is Emit to a given subpartition. One that does not exist is
// shuffle.ErrInvalidArgument.
func (w *RecordWriter[T]) EmitTo(ctx context.Context, rec T, subpartition int) error {
	return w.emit(ctx, rec, subpartition, false)
}

// emit is the way of all records of Emit and EmitTo. For those of bytes that fit the open
// buffer it does all itself, and little else: what a call needs is put on the stack, and
// while lines come from another core every store counts. If choose is set, the selector
// chooses the subpartition; it is 0 where there is none.
func (w *RecordWriter[T]) emit(ctx context.Context, rec T, subpartition int, choose bool) error {
	if w == nil {
		return errNoWriter
	}
	if choose && w.selector != nil {
		return w.emitSelected(ctx, rec)
	}
	if uint(subpartition) >= uint(len(w.builders)) {
		return w.noSubpartition(subpartition)
	}
	if !w.isBytes {
		return w.emitCoded(ctx, rec, subpartition)
	}
	body, open := asBytes(&rec), w.builders[subpartition]
	dst := open.Enter(memseg.PlaceOf(&rec), memseg.LengthPrefix+len(body))
	if dst == nil {
		return w.emitToNext(ctx, rec, memseg.PlaceOf(&rec), subpartition)
	}
	binary.BigEndian.PutUint32(dst, uint32(len(body)))
	copy(dst[memseg.LengthPrefix:], body)
	w.records++
	if open.Advance(memseg.LengthPrefix+len(body)) || w.always {
		return w.told(w.commit(subpartition))
	}
	return nil
}

// put writes a record of bytes to the room that a builder has for it. emit does the same
// itself: it is too much to be inlined, and a call takes part of what emit saves.
func (w *RecordWriter[T]) put(open *memseg.BufferBuilder, dst, body []byte, subpartition int) error {
	binary.BigEndian.PutUint32(dst, uint32(len(body)))
	copy(dst[memseg.LengthPrefix:], body)
	w.records++
	if open.Advance(memseg.LengthPrefix+len(body)) || w.always {
		return w.told(w.commit(subpartition))
	}
	return nil
}

func (w *RecordWriter[T]) emitSelected(ctx context.Context, rec T) error {
	subpartition := w.selector.Select(rec)
	if subpartition == AllChannels {
		return w.Broadcast(ctx, rec)
	}
	return w.EmitTo(ctx, rec, subpartition)
}

// emitToNext emits a record of bytes that the open buffer has no room for, from that
// place of the stack.
func (w *RecordWriter[T]) emitToNext(ctx context.Context, rec T, here memseg.Place, subpartition int) error {
	body := asBytes(&rec)
	open, dst, err := w.startRecord(ctx, here, memseg.LengthPrefix+len(body), subpartition)
	switch {
	case err != nil:
		return w.told(err)
	case dst == nil:
		return w.told(w.emitLong(ctx, rec, len(body), subpartition))
	}
	return w.put(open, dst, body, subpartition)
}

// emitCoded emits a record by the codec.
func (w *RecordWriter[T]) emitCoded(ctx context.Context, rec T, subpartition int) error {
	if w.inCodec {
		if err := w.checkNotInCodec(1); err != nil {
			return err
		}
	}
	open := w.builders[subpartition]
	size := w.codec.Size(rec)
	if size < 0 {
		return w.emitAppended(ctx, rec, size, subpartition)
	}
	here := memseg.PlaceOf(&rec) // the codec may have moved the stack
	dst := open.Enter(here, memseg.LengthPrefix+size)
	if dst == nil {
		if err := w.checkSize(size); err != nil {
			return err
		}
		var err error
		if open, dst, err = w.startRecord(ctx, here, memseg.LengthPrefix+size, subpartition); err != nil {
			return w.told(err)
		}
		if dst == nil {
			return w.told(w.emitLong(ctx, rec, size, subpartition))
		}
	}
	binary.BigEndian.PutUint32(dst, uint32(size))
	w.inCodec = true
	out := w.codec.Append(dst[memseg.LengthPrefix:memseg.LengthPrefix:len(dst)], rec)
	w.inCodec = false
	if len(out) != size || (size > 0 && &out[0] != &dst[memseg.LengthPrefix]) {
		open.Leave()
		return w.codecError(size, len(out))
	}
	w.records++
	if open.Advance(len(dst)) || w.always {
		return w.told(w.commit(subpartition))
	}
	return nil
}

// told passes on what a call returns. Once the partition has ended, no open buffer
// takes a record any more, where it would look as if it were sent: the next call
// goes the long way and is told too.
func (w *RecordWriter[T]) told(err error) error {
	if w.partition.HasEnded() {
		for i := range w.builders {
			w.builders[i] = &w.full
		}
	}
	return err
}

// startRecord returns room for a record of size bytes with its prefix at the start
// of a new buffer, or none if the record is to be cut. If it was elsewhere on its
// stack that this goroutine has written to the open buffer, that one has room.
func (w *RecordWriter[T]) startRecord(ctx context.Context, here memseg.Place, size,
	subpartition int) (open *memseg.BufferBuilder, dst []byte, err error) {
	if open = w.builders[subpartition]; open.Follow(here) {
		if dst = open.Enter(here, size); dst != nil {
			return open, dst, nil
		}
	}
	if err := w.flusherErr(); err != nil {
		return nil, nil, err
	}
	open, dst, err = w.partition.StartRecord(ctx, here, size, subpartition)
	if dst != nil {
		w.builders[subpartition] = open
		w.published.StoreRelease(uint64(w.records))
	}
	return open, dst, err
}

func (w *RecordWriter[T]) noSubpartition(subpartition int) error {
	if err := w.check(); err != nil {
		return err
	}
	return fmt.Errorf("partition %s: subpartition %d of %d: %w", w.label(), subpartition, len(w.builders),
		shuffle.ErrInvalidArgument)
}

// commit publishes what is due and reports the partition's errors.
func (w *RecordWriter[T]) commit(subpartition int) error {
	w.published.StoreRelease(uint64(w.records))
	if w.always {
		return w.partition.FlushOpen(subpartition)
	}
	if err := w.partition.PublishOpen(subpartition); err != nil {
		return err
	}
	return w.flusherErr()
}

func (w *RecordWriter[T]) label() string {
	spec := w.partition.Spec()
	return spec.Label()
}

// codecError is about a codec that did not keep its promise.
func (w *RecordWriter[T]) codecError(size, got int) error {
	if size == got {
		return fmt.Errorf("partition %s: codec %T returned another slice than the one that it had to append to: %w",
			w.label(), w.codec, shuffle.ErrCorruptRecord)
	}
	return fmt.Errorf("partition %s: codec %T promised %d bytes and appended %d: %w", w.label(), w.codec, size, got,
		shuffle.ErrCorruptRecord)
}

// checkSize checks what a codec says that a record will take.
func (w *RecordWriter[T]) checkSize(size int) error {
	if size < 0 {
		return fmt.Errorf("partition %s: codec %T promised %d bytes: %w", w.label(), w.codec, size,
			shuffle.ErrCorruptRecord)
	}
	if size > shuffle.MaxRecordLength {
		return fmt.Errorf("partition %s: record of %d bytes, want at most %d: %w", w.label(), size,
			shuffle.MaxRecordLength, shuffle.ErrRecordTooLarge)
	}
	return nil
}

// startLong begins a record on the long way, of which there is one at a time: it
// uses the writer's own memory.
func (w *RecordWriter[T]) startLong() error {
	if err := w.check(); err != nil {
		return err
	}
	if !w.long.TryLock() {
		return fmt.Errorf("partition %s: another goroutine is emitting: %w", w.label(), shuffle.ErrConcurrentUse)
	}
	return nil
}

// emitLong writes a record that is cut over buffers.
func (w *RecordWriter[T]) emitLong(ctx context.Context, rec T, size, subpartition int) error {
	if err := w.startLong(); err != nil {
		return err
	}
	defer w.long.Unlock()
	prefix, body, err := w.serialize(rec, size)
	if err != nil {
		return err
	}
	return w.emitParts(ctx, prefix, body, subpartition)
}

// emitParts writes a record over as many buffers as it needs. It is the one on the long
// way.
func (w *RecordWriter[T]) emitParts(ctx context.Context, prefix, body []byte, subpartition int) error {
	if err := w.partition.EmitRecordParts(ctx, prefix, body, subpartition); err != nil {
		return err
	}
	w.records++
	w.published.StoreRelease(uint64(w.records))
	if err := w.flusherErr(); err != nil {
		return err
	}
	if w.always {
		return w.partition.Flush(subpartition)
	}
	return nil
}

// flusherErr returns why the output flusher has ended by itself.
func (w *RecordWriter[T]) flusherErr() error {
	if w.flusher == nil {
		return nil
	}
	return w.flusher.err()
}

// serialize returns a record's length prefix and its bytes, valid until the next
// call. Bytes are not copied.
func (w *RecordWriter[T]) serialize(rec T, size int) (prefix, body []byte, err error) {
	if size < 0 && w.appends != nil {
		return w.serializeAppended(rec)
	}
	if err := w.checkSize(size); err != nil {
		return nil, nil, err
	}
	prefix = binary.BigEndian.AppendUint32(w.prefix[:0], uint32(size))
	if w.isBytes {
		return prefix, asBytes(&rec), nil
	}
	w.growScratch(size)
	body = w.codec.Append(w.scratch[:0], rec)
	if len(body) != size || (size > 0 && &body[0] != &w.scratch[:1][0]) {
		return nil, nil, w.codecError(size, len(body))
	}
	return prefix, body, nil
}

const keptScratch = 1 << 20

// growScratch makes room for a record of size bytes, and lets go of what an unusually
// long one has left.
func (w *RecordWriter[T]) growScratch(size int) {
	if cap(w.scratch) < size || cap(w.scratch) > keptScratch {
		w.scratch = make([]byte, 0, max(size, 1024))
	}
}

// Broadcast writes a record to every subpartition. It is serialised once, and
// all consumers read the same memory. Errors are as of Emit: either all consumers
// get the record or none does, unless the error says that the record was cut: then
// the partition has ended and all of them have the same part of it.
func (w *RecordWriter[T]) Broadcast(ctx context.Context, rec T) error {
	if err := w.checkOutsideOfCodec(); err != nil {
		return err
	}
	if err := w.startLong(); err != nil {
		return err
	}
	defer w.long.Unlock()
	prefix, body, err := w.serialize(rec, w.codec.Size(rec))
	if err != nil {
		return err
	}
	if err := w.partition.BroadcastRecordParts(ctx, prefix, body); err != nil {
		return w.told(err)
	}
	w.records++
	w.published.StoreRelease(uint64(w.records))
	if w.always {
		return w.partition.FlushAll()
	}
	return w.flusherErr()
}

// BroadcastEvent sends an event to every subpartition, behind the records
// emitted so far, or before everything that is queued if it has priority. It waits
// until there is room for it in all of them: an error means that none gets it.
func (w *RecordWriter[T]) BroadcastEvent(ctx context.Context, e shuffle.Event) error {
	if err := w.checkOutsideOfCodec(); err != nil {
		return err
	}
	return w.told(w.partition.BroadcastEvent(ctx, e))
}

// Flush wakes the consumers for all records emitted so far.
func (w *RecordWriter[T]) Flush() error {
	if err := w.check(); err != nil {
		return err
	}
	if err := w.partition.FlushAll(); err != nil {
		return err
	}
	w.partition.SetCounters(int64(w.published.Load()), w.Idle())
	return nil
}

// Finish sends end-of-partition behind the last record and stops the output
// flusher. The data stays for its consumers; the partition's Close, or the end
// of the process, does not take it away. While another goroutine emits, it is
// shuffle.ErrConcurrentUse, and nothing was sent; so every record whose Emit has
// returned nil is before the end.
//
// An error that wraps shuffle.ErrOutcomeUnknown means that the end is sent and only
// its acknowledgement is missing: Finish again asks for that. Any other error means
// that it is not sent: Fail and Finish still work. See
// shuffle.ResultPartition.Finish.
func (w *RecordWriter[T]) Finish(ctx context.Context) error {
	if err := w.checkOutsideOfCodec(); err != nil {
		return err
	}
	w.published.StoreRelease(uint64(w.records))
	w.partition.SetCounters(w.records, w.Idle())
	err := w.partition.Finish(ctx)
	if err == nil || errors.Is(err, shuffle.ErrOutcomeUnknown) {
		w.stopFlusher()
	}
	return w.told(err)
}

// Fail ends the partition with a cause that its consumers see, after the records
// emitted so far, and stops the output flusher. See shuffle.ResultPartition.Fail.
func (w *RecordWriter[T]) Fail(ctx context.Context, cause error) error {
	if err := w.check(); err != nil {
		return err
	}
	err := w.partition.Fail(ctx, cause)
	w.stopFlusher()
	return w.told(err)
}

// Close stops the output flusher and closes the partition. Without Finish or
// Fail before, consumers see a lost producer. A second Close is
// shuffle.ErrClosed.
//
// Any goroutine may call it. One that waits in Emit gets shuffle.ErrClosed. What one is
// putting into an open buffer meanwhile goes nowhere, though that Emit may return nil:
// unfinished, the stream has no end, and finished, nobody was emitting. The next one
// returns shuffle.ErrClosed.
func (w *RecordWriter[T]) Close() error {
	if err := w.check(); err != nil {
		return err
	}
	w.stopFlusher()
	return w.partition.Close()
}

func (w *RecordWriter[T]) stopFlusher() {
	if w.flusher != nil {
		w.flusher.stop()
	}
}

// IsAvailable reports whether a record can be emitted without waiting for a
// segment, unless it needs several.
func (w *RecordWriter[T]) IsAvailable() bool {
	return w.check() == nil && w.partition.IsAvailable()
}

// WaitAvailable waits until IsAvailable, or until ctx ends: see
// shuffle.ResultPartition.WaitAvailable. It is a call of the goroutine that writes.
func (w *RecordWriter[T]) WaitAvailable(ctx context.Context) error {
	if err := w.checkOutsideOfCodec(); err != nil {
		return err
	}
	return w.told(w.partition.WaitAvailable(ctx))
}
