package writer

import "time"

// Counters are what a writer has done so far.
type Counters struct {
	// Records counts emitted records, a broadcast one once. It may lag by the
	// records of one commit step.
	Records int64
	// Bytes and Buffers count finished buffers times their receivers.
	Bytes, Buffers int64
	// BackPressured is the time spent waiting for segments, Idle the time that
	// passed between calls, as AddIdle was told.
	BackPressured, Idle time.Duration
}

// Counters returns the writer's counters.
func (w *RecordWriter[T]) Counters() Counters {
	if w.check() != nil {
		return Counters{}
	}
	return Counters{
		Records: int64(w.published.Load()), Bytes: w.partition.BytesOut(), Buffers: w.partition.BuffersOut(),
		BackPressured: w.partition.BackPressured(), Idle: w.Idle(),
	}
}

// Idle returns the time that the writer's user reported with AddIdle.
func (w *RecordWriter[T]) Idle() time.Duration {
	if w.check() != nil {
		return 0
	}
	return time.Duration(w.idleNs.Load())
}

// AddIdle counts time in which the writer's user had nothing to emit. Only the
// user can tell it from work.
func (w *RecordWriter[T]) AddIdle(d time.Duration) {
	if w.check() == nil {
		w.idleNs.Add(int64(d))
	}
}
