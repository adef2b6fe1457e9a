package bench

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"shuffled/writer"
)

// Buffers of the streams, one for each connection.
const (
	streamWriteBuffer = 32 << 10
	streamReadBuffer  = 64 << 10
)

// produceIntoStreams writes the records of a source, each behind its length. The
// only stream gets all of them, several get those that the selector chooses.
func produceIntoStreams(streams []io.Writer, selector writer.ChannelSelector[[]byte], source *recordSource) error {
	s, err := newStreamSplitter(streams, selector)
	if err != nil {
		return err
	}
	return s.produce(source)
}

// A streamSplitter spreads records over streams. One goroutine uses it.
type streamSplitter struct {
	selector writer.ChannelSelector[[]byte]
	buffered []*bufio.Writer
}

func newStreamSplitter(streams []io.Writer, selector writer.ChannelSelector[[]byte]) (*streamSplitter, error) {
	if err := selector.Setup(len(streams)); err != nil {
		return nil, err
	}
	s := &streamSplitter{selector: selector}
	for _, stream := range streams {
		s.buffered = append(s.buffered, bufio.NewWriterSize(stream, streamWriteBuffer))
	}
	return s, nil
}

// produce writes the records of a source until it ends, and flushes.
func (s *streamSplitter) produce(source *recordSource) error {
	buffered, selector := s.buffered, s.selector
	out := buffered[0]
	for source.more() {
		for i := range source.count {
			frame := source.framed(i)
			if len(buffered) > 1 {
				out = buffered[selector.Select(frame[framePrefix:])]
			}
			if _, err := out.Write(frame); err != nil {
				return fmt.Errorf("write record: %w", err)
			}
		}
	}
	for _, out := range buffered {
		if err := out.Flush(); err != nil {
			return fmt.Errorf("write record: %w", err)
		}
	}
	return nil
}

// consumeFromStreams checks what comes on each stream up to its end, in a
// goroutine for each; checkers are theirs in turn. When one fails, it calls
// abort, which must make the others' reads return.
func consumeFromStreams(streams []io.Reader, checkers []*recordChecker, timer *spanTimer, abort func()) error {
	errs := make([]error, len(streams))
	var readers sync.WaitGroup
	for i, stream := range streams {
		readers.Go(func() {
			if errs[i] = consumeFromStream(stream, checkers[i], timer); errs[i] != nil {
				abort()
			}
		})
	}
	readers.Wait()
	for _, err := range errs {
		if errors.Is(err, ErrContent) {
			return err // the others' are its consequence
		}
	}
	return errors.Join(errs...)
}

// consumeFromStream checks records where they lie in the read buffer.
func consumeFromStream(stream io.Reader, checker *recordChecker, timer *spanTimer) error {
	buf := make([]byte, max(streamReadBuffer, framePrefix+checker.size))
	have := 0
	for {
		n, err := stream.Read(buf[have:])
		if n > 0 && have == 0 && checker.count() == 0 {
			timer.begin()
		}
		have += n
		rest := buf[:have]
		for len(rest) >= framePrefix {
			length := int(binary.BigEndian.Uint32(rest))
			if length > len(buf)-framePrefix {
				return fmt.Errorf("record %d has %d bytes, want %d: %w", checker.count(), length, checker.size,
					ErrContent)
			}
			if framePrefix+length > len(rest) {
				break
			}
			if err := checker.check(rest[framePrefix : framePrefix+length]); err != nil {
				return err
			}
			rest = rest[framePrefix+length:]
		}
		have = copy(buf, rest)
		if errors.Is(err, io.EOF) && have > 0 {
			return fmt.Errorf("stream ends within record %d: %w", checker.count(), io.ErrUnexpectedEOF)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read record: %w", err)
		}
	}
}
