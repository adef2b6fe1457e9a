package partition_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
)

// A stream is a partition of one subpartition and its consumer.
type stream struct {
	*linktest.Link
	p *partition.ResultPartition
	c *linktest.Consumer

	t      testing.TB
	shared bool // the open buffer is a broadcast one
}

func newStream(t testing.TB, memory linktest.Memory, segments, segmentSize int) *stream {
	t.Helper()
	link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: segments,
		SegmentSize: segmentSize})
	return &stream{Link: link, p: link.Partition, c: link.Consumer(0), t: t}
}

// write adds n bytes to the open buffer, or starts one.
func (s *stream) write(n int) {
	s.t.Helper()
	if s.shared {
		broadcast(s.t, s.p, n)
	} else {
		emit(s.t, s.p, n, 0)
	}
}

// next finishes the open buffer as it is and starts another one with n bytes.
func (s *stream) next(n int) {
	s.t.Helper()
	s.shared = !s.shared
	s.write(n)
}

func (s *stream) event(typ memseg.DataType) {
	s.t.Helper()
	sendEvent(s.t, s.p, newBarrier(typ))
}

func (s *stream) flush() {
	s.t.Helper()
	require.NoError(s.t, s.p.FlushAll())
}

func (s *stream) finish() {
	s.t.Helper()
	require.NoError(s.t, s.p.Finish(context.Background()))
}

// arm asks for a wake-up, when there is nothing to read.
func (s *stream) arm(threshold int) {
	s.t.Helper()
	require.True(s.t, s.c.Arm(threshold), "there is something to read")
}

func (s *stream) poll() polled {
	s.t.Helper()
	return poll(s.t, s.c.SubpartitionView)
}
