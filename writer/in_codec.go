package writer

import (
	"fmt"
	"runtime"
	"strings"

	"shuffled/shuffle"
)

// emitName is how the name of emitCoded ends, without its type parameters.
const emitName = "/writer.(*RecordWriter).emitCoded"

// checkNotInCodec refuses what a codec asks of the writer that it appends a record for.
// After a panic of the codec inCodec is left as it was, so the stack decides: there may be
// so many emits on it.
func (w *RecordWriter[T]) checkNotInCodec(emits int) error {
	if !w.inCodec {
		return nil
	}
	stack := make([]uintptr, 64)
	n := 0
	for n = runtime.Callers(1, stack); n == len(stack); n = runtime.Callers(1, stack) {
		stack = make([]uintptr, 2*len(stack))
	}
	for frames, more := runtime.CallersFrames(stack[:n]), n > 0; more; {
		var frame runtime.Frame
		frame, more = frames.Next()
		if isEmit(frame.Function) {
			emits--
		}
	}
	if emits < 0 {
		return fmt.Errorf("partition %s: codec %T uses the writer that it appends a record for: %w", w.label(), w.codec,
			shuffle.ErrConcurrentUse)
	}
	return nil
}

func isEmit(function string) bool {
	if open, end := strings.IndexByte(function, '['), strings.LastIndexByte(function, ']'); open >= 0 && open < end {
		function = function[:open] + function[end+1:]
	}
	return strings.HasSuffix("/"+function, emitName)
}

// checkOutsideOfCodec is check for a call that does not come from emitCoded.
func (w *RecordWriter[T]) checkOutsideOfCodec() error {
	if err := w.check(); err != nil {
		return err
	}
	return w.checkNotInCodec(0)
}
