package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"shuffled/client"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A latencyEnd is a worker's end of a connection by which it sends records to a
// peer, gets records of it, or both, one at a time. One goroutine uses it.
type latencyEnd interface {
	// send sends a record, which it gets behind its length, at once.
	send(ctx context.Context, frame []byte) error
	// finish says that there will be no more.
	finish(ctx context.Context) error
	// receive calls deliver for each record as it comes, until the peer has
	// finished or deliver returns an error, which receive returns.
	receive(ctx context.Context, deliver func(record []byte) error) error
	close() error
}

// A latencyLink says how a worker reaches its peer.
type latencyLink struct {
	Transport Transport
	Size      int // of records
	Socket    string
	// Polls has the worker spin until it gets a record, through Shm.
	Polls bool
	// Out and In name the exchanges that go to the peer and come from it; one that
	// there is not is empty.
	Out, In string
	// FlushTimeout is that of Out.
	FlushTimeout time.Duration
}

// reversed returns the link of the peer.
func (l latencyLink) reversed() latencyLink {
	l.Out, l.In = l.In, l.Out
	return l
}

// open connects this worker. The caller closes what it returns.
func (l *latencyLink) open(ctx context.Context) (latencyEnd, error) {
	if l.Transport == Shm {
		return openShmEnd(ctx, l)
	}
	return openStreamEnd(l)
}

// A shmEnd goes through the shuffle. It waits in Records, or polls TryNext.
type shmEnd struct {
	size       int
	polls      bool
	disconnect func()
	out        *writer.RecordWriter[[]byte] // nil if it does not send
	gate       shuffle.InputGate            // nil if it does not receive
}

func openShmEnd(ctx context.Context, l *latencyLink) (_ *shmEnd, err error) {
	e := &shmEnd{size: l.Size, polls: l.Polls}
	defer func() {
		if err != nil {
			_ = e.close()
		}
	}()
	out := Exchange{Name: l.Out, Socket: l.Socket, Producers: 1, Consumers: 1}
	in := out
	in.Name = l.In
	c, disconnect, err := out.connect(ctx, "latency")
	if err != nil {
		return nil, err
	}
	e.disconnect = disconnect
	if l.Out != "" {
		if e.out, err = openWriter(ctx, c, out, l.FlushTimeout); err != nil {
			return nil, err
		}
	}
	if l.In != "" {
		if e.gate, err = in.open(ctx, c, 0); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func openWriter(ctx context.Context, c *client.Client, e Exchange, timeout time.Duration) (*writer.RecordWriter[[]byte],
	error) {
	partition, err := e.create(ctx, c, 0)
	if err != nil {
		return nil, err
	}
	out, err := writer.New(partition, shuffle.Bytes{}, writer.Forward[[]byte](), writer.WithBufferTimeout(timeout))
	if err != nil {
		return nil, cmp.Or(err, partition.Close())
	}
	return out, nil
}

func (e *shmEnd) send(ctx context.Context, frame []byte) error {
	return e.out.Emit(ctx, frame[framePrefix:])
}

func (e *shmEnd) finish(ctx context.Context) error { return e.out.Finish(ctx) }

func (e *shmEnd) receive(ctx context.Context, deliver func([]byte) error) error {
	if e.polls {
		return e.poll(ctx, deliver)
	}
	for record, err := range reader.Records(ctx, e.gate, shuffle.Bytes{}) {
		if err == nil {
			err = deliver(record)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// poll is receive without ever waiting.
func (e *shmEnd) poll(ctx context.Context, deliver func([]byte) error) error {
	frames := frameCutter{size: e.size}
	for spins := 1; ; spins++ {
		b, ok, err := e.gate.TryNext()
		if errors.Is(err, io.EOF) {
			return frames.end()
		}
		if err == nil && !ok && spins%spinsPerLook == 0 && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("poll for records: %w", err)
		}
		if !ok {
			continue
		}
		if !b.IsEvent() {
			err = frames.cut(b.Bytes(), deliver)
		}
		if err := cmp.Or(err, b.Release()); err != nil {
			return err
		}
	}
}

func (e *shmEnd) close() error {
	var err error
	if e.out != nil {
		err = e.out.Close()
	}
	if e.gate != nil {
		err = cmp.Or(err, e.gate.Close())
	}
	if e.disconnect != nil {
		e.disconnect()
	}
	return err
}

// A streamEnd goes through one stream each way. It writes each record by itself.
type streamEnd struct {
	size    int
	out, in *os.File // nil if it does not send, or receive
}

func openStreamEnd(l *latencyLink) (*streamEnd, error) {
	e := &streamEnd{size: l.Size}
	var ends []**os.File
	if l.Out != "" {
		ends = append(ends, &e.out)
	}
	if l.In != "" {
		ends = append(ends, &e.in)
	}
	files, err := openStreams(len(ends))
	if err != nil {
		return nil, err
	}
	for i, file := range files {
		*ends[i] = file
	}
	return e, nil
}

func (e *streamEnd) send(_ context.Context, frame []byte) error {
	if _, err := e.out.Write(frame); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

func (e *streamEnd) finish(context.Context) error { return e.out.Close() }

func (e *streamEnd) receive(_ context.Context, deliver func([]byte) error) error {
	frames := frameCutter{size: e.size}
	buf := make([]byte, max(streamReadBuffer, framePrefix+e.size))
	for {
		n, err := e.in.Read(buf)
		if err := frames.cut(buf[:n], deliver); err != nil {
			return err
		}
		if errors.Is(err, io.EOF) {
			return frames.end()
		}
		if err != nil {
			return fmt.Errorf("read record: %w", err)
		}
	}
}

func (e *streamEnd) close() error {
	for _, file := range []*os.File{e.out, e.in} {
		if file != nil {
			_ = file.Close() // finish may have closed it
		}
	}
	return nil
}

// A frameCutter cuts a stream that comes in chunks into records of one size.
type frameCutter struct {
	size  int
	begun []byte // a frame that is not complete
	count int64
}

// cut calls deliver for each record that is complete now.
func (c *frameCutter) cut(chunk []byte, deliver func(record []byte) error) error {
	frame := framePrefix + c.size
	if len(c.begun) > 0 {
		n := min(frame-len(c.begun), len(chunk))
		c.begun = append(c.begun, chunk[:n]...)
		if chunk = chunk[n:]; len(c.begun) < frame {
			return nil
		}
		if err := c.deliver(c.begun, deliver); err != nil {
			return err
		}
		c.begun = c.begun[:0]
	}
	for ; len(chunk) >= frame; chunk = chunk[frame:] {
		if err := c.deliver(chunk[:frame], deliver); err != nil {
			return err
		}
	}
	c.begun = append(c.begun, chunk...)
	return nil
}

func (c *frameCutter) deliver(frame []byte, deliver func(record []byte) error) error {
	if length := binary.BigEndian.Uint32(frame); int64(length) != int64(c.size) {
		return fmt.Errorf("record %d has %d bytes, want %d: %w", c.count, length, c.size, ErrContent)
	}
	c.count++
	return deliver(frame[framePrefix:])
}

// end checks that the stream may end here.
func (c *frameCutter) end() error {
	if len(c.begun) > 0 {
		return fmt.Errorf("stream ends within record %d: %w", c.count, io.ErrUnexpectedEOF)
	}
	return nil
}
