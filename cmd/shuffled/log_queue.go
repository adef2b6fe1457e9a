package main

import (
	"errors"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// logQueueBytes bounds what waits for whoever reads the log.
	logQueueBytes = 1 << 20
	// logPatience is how long the end of the program waits for that reader.
	logPatience = time.Second
)

// A logQueue stands before standard error, which may be a pipe that nobody drains:
// its Write never waits. One goroutine writes what is queued, in order. Lines that
// find no room, and those that cannot be written, are dropped and counted. Its
// methods may be called from any number of goroutines.
type logQueue struct {
	out io.Writer
	// notice makes the line that says how many were dropped, once there is room
	// again. It is set before the first line.
	notice func(dropped uint64) []byte

	mu      sync.Mutex
	changed sync.Cond // lines, closed
	lines   [][]byte
	bytes   int
	dropped uint64
	untold  uint64 // of those, that no notice told of
	failing bool   // the last line could not be written
	closed  bool

	ended chan struct{}
}

// newLogQueue starts the goroutine that writes to out until close.
func newLogQueue(out io.Writer) *logQueue {
	q := &logQueue{out: out, ended: make(chan struct{})}
	q.changed.L = &q.mu
	go q.run()
	return q
}

// Write queues a line, or drops it. It takes a copy, and never fails.
func (q *logQueue) Write(line []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.bytes+len(line) > logQueueBytes {
		q.drop(1)
		return len(line), nil
	}
	q.lines = append(q.lines, append([]byte(nil), line...))
	q.bytes += len(line)
	q.changed.Signal()
	return len(line), nil
}

// drop counts lines that nobody will see. The lock is held.
func (q *logQueue) drop(n uint64) {
	q.dropped += n
	q.untold += n
}

// droppedLines returns how many lines were dropped.
func (q *logQueue) droppedLines() uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

// close writes what is queued and returns, after logPatience in any case: then a
// goroutine is left in a write that only the end of the process ends. What is
// written later is dropped.
func (q *logQueue) close() {
	q.mu.Lock()
	q.closed = true
	q.changed.Signal()
	q.mu.Unlock()
	select {
	case <-q.ended:
	case <-time.After(logPatience):
	}
}

func (q *logQueue) run() {
	defer close(q.ended)
	for {
		line, told, ok := q.next()
		if !ok {
			return
		}
		written := q.write(line)
		q.mu.Lock()
		q.failing = !written
		if told > 0 && !written {
			q.untold += told
		} else if !written {
			q.drop(1)
		}
		q.mu.Unlock()
	}
}

// next waits for a line. The notice of dropped ones comes when everything before
// them is written, and lines can be; told is how many it tells of.
func (q *logQueue) next() (line []byte, told uint64, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case len(q.lines) > 0:
			line, q.lines[0] = q.lines[0], nil
			q.lines = q.lines[1:]
			q.bytes -= len(line)
			return line, 0, true
		case q.untold > 0 && q.notice != nil && !q.failing:
			told, q.untold = q.untold, 0
			return q.notice(told), told, true
		case q.closed:
			return nil, 0, false
		}
		q.lines = nil
		q.changed.Wait()
	}
}

// write writes a line and reports whether it could.
func (q *logQueue) write(line []byte) bool {
	for len(line) > 0 {
		n, err := q.out.Write(line)
		line = line[min(max(n, 0), len(line)):]
		switch {
		case err == nil:
		case errors.Is(err, unix.EAGAIN) && !q.isClosed(): // somebody made the pipe non-blocking
			time.Sleep(10 * time.Millisecond)
		default:
			return false
		}
	}
	return true
}

func (q *logQueue) isClosed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.closed
}
