package partition_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/shuffle"
)

// framed is a record of n bytes behind its length.
func framed(n int, fill byte) []byte {
	record := binary.BigEndian.AppendUint32(nil, uint32(n))
	for range n {
		record = append(record, fill)
	}
	return record
}

func reserve(t testing.TB, p *partition.ResultPartition, subpartition, n int, fill byte) {
	t.Helper()
	dst, err := p.Reserve(context.Background(), subpartition, n)
	require.NoError(t, err)
	require.Len(t, dst, n)
	require.Equal(t, n, cap(dst), "a reservation does not reach into what follows")
	for i := range dst {
		dst[i] = fill
	}
}

func TestReservedRecordIsReadInPlace(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 4, 64)
		dst, err := s.p.Reserve(context.Background(), 0, 20)
		require.NoError(t, err)
		copy(dst, "twenty bytes of text")
		require.Equal(t, nothing, s.poll(), "not before Commit")
		require.NoError(t, s.p.Commit())
		require.Equal(t, nothing, s.poll(), "committed in steps")
		s.flush()
		held := hold(t, s.c.SubpartitionView)
		require.Equal(t, append(binary.BigEndian.AppendUint32(nil, 20), "twenty bytes of text"...), held.Bytes())
		if memory == linktest.Heap {
			require.Same(t, &dst[0], &held.Bytes()[4])
		}
		require.NoError(t, held.Release())
	})
}

func TestReservedRecordsMixWithOthers(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 8, 64)
		var want []byte
		write := func(n int, fill byte) {
			require.NoError(t, s.p.EmitRecord(context.Background(), framed(n, fill), 0))
			want = append(want, framed(n, fill)...)
		}
		commit := func(n int, fill byte) {
			reserve(t, s.p, 0, n, fill)
			require.NoError(t, s.p.Commit())
			want = append(want, framed(n, fill)...)
		}
		commit(0, 0)
		write(10, 1)
		commit(20, 2)
		reserve(t, s.p, 0, 16, 0xee)
		s.p.Abort()
		s.p.Abort() // nothing more to drop
		commit(18, 3)
		write(100, 4)
		commit(60, 5) // a whole segment
		s.flush()
		var read []byte
		for {
			content, typ := take(t, s.c.SubpartitionView)
			if typ == none {
				break
			}
			read = append(read, content...)
		}
		require.Equal(t, want, read)
	})
}

// A reservation is a call that goes on: others are refused, but its goroutine may give
// the record to another one, which commits it.
func TestRecordThatAGoroutineHasReservedIsItsOwn(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		ctx := context.Background()
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 12, SegmentSize: 64})
		p, view := link.Partition, link.View(0)
		for i := range 4 { // the first of them begins a buffer
			given := make(chan []byte)
			go func() {
				dst, err := p.Reserve(ctx, 0, 4)
				assert.NoError(t, err)
				given <- dst
			}()
			dst := <-given
			_, reserved := p.Reserve(ctx, 1, 4)
			for name, err := range map[string]error{
				"emit": p.EmitRecord(ctx, framed(1, 'x'), 0), "emit to another": p.EmitRecord(ctx, framed(1, 'x'), 1),
				"broadcast": p.BroadcastRecord(ctx, framed(1, 'x')),
				"event":     p.BroadcastEvent(ctx, shuffle.CustomEvent{}), "finish": p.Finish(ctx),
			} {
				require.ErrorIs(t, err, shuffle.ErrConcurrentUse, name)
			}
			require.ErrorIs(t, reserved, shuffle.ErrInvalidArgument)
			copy(dst, "gggg")
			if i == 2 {
				p.Abort()
			} else {
				require.NoError(t, p.Commit())
			}
		}
		require.NoError(t, p.Finish(ctx))
		content, _ := take(t, view)
		require.Equal(t, strings.Repeat(string(framed(4, 'g')), 3), string(content))
	})
}

func TestPartitionIsClosedUnderARecordThatIsReserved(t *testing.T) {
	for _, finished := range []bool{false, true} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 4,
			SegmentSize: 4096})
		p := link.Partition
		emit(t, p, 10, 0)
		dst, err := p.Reserve(context.Background(), 0, 4000)
		require.NoError(t, err)
		before := bytes.Clone(link.Region().Bytes())
		if finished {
			p.Abort()
			require.NoError(t, p.Finish(context.Background()))
			before = bytes.Clone(link.Region().Bytes())
		}
		closed := make(chan error)
		go func() { closed <- p.Close() }()
		require.NoError(t, <-closed)
		copy(dst, bytes.Repeat([]byte{'x'}, len(dst)))
		require.True(t, bytes.Equal(before, link.Region().Bytes()), "the memory is somebody else's now")
		require.ErrorIs(t, p.Commit(), shuffle.ErrClosed)
		p.Abort()
		_, err = p.Reserve(context.Background(), 0, 10)
		require.ErrorIs(t, err, shuffle.ErrClosed)
	}
}

func TestReservationThatDoesNotFitTheOpenBufferFinishesIt(t *testing.T) {
	s := newStream(t, linktest.Heap, 4, 64)
	s.write(10)
	reserve(t, s.p, 0, 51, 1)
	require.EqualValues(t, 1, s.p.BuffersOut())
	require.EqualValues(t, 10, s.p.BytesOut())
	require.NoError(t, s.p.Commit())
	require.Equal(t, 2, s.Pool.Used())
	reserve(t, s.p, 0, 6, 2)
	require.NoError(t, s.p.Commit())
	require.EqualValues(t, 2, s.p.BuffersOut())
	require.Equal(t, 3, s.Pool.Used())
}

func TestReservedRecordThatFillsTheBufferFinishesIt(t *testing.T) {
	s := newStream(t, linktest.Heap, 4, 64)
	s.arm(0)
	reserve(t, s.p, 0, 60, 1)
	require.Zero(t, s.p.BuffersOut())
	require.NoError(t, s.p.Commit())
	require.EqualValues(t, 1, s.p.BuffersOut())
	require.Equal(t, 1, s.c.Rings())
	require.Equal(t, 64, s.poll().size)
}

func TestReserveRefuses(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 3, SegmentSize: 64})
	p := link.Partition
	for _, row := range []struct {
		name    string
		sub, n  int
		wantErr error
	}{
		{"a negative size", 0, -1, shuffle.ErrInvalidArgument},
		{"a negative subpartition", -1, 1, shuffle.ErrInvalidArgument},
		{"the subpartition after the last", 2, 1, shuffle.ErrInvalidArgument},
		{"what no segment holds", 0, 61, shuffle.ErrRecordTooLarge},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := p.Reserve(context.Background(), row.sub, row.n)
			require.ErrorIs(t, err, row.wantErr)
			require.Zero(t, link.Pool.Used())
		})
	}
	require.ErrorIs(t, p.Commit(), shuffle.ErrInvalidArgument, "nothing is reserved")
}

func TestNothingElseIsWrittenWhileARecordIsReserved(t *testing.T) {
	s := newStream(t, linktest.Heap, 4, 64)
	ctx := context.Background()
	reserve(t, s.p, 0, 10, 7)
	for name, call := range map[string]func() error{
		"Reserve":         func() error { _, err := s.p.Reserve(ctx, 0, 1); return err },
		"EmitRecord":      func() error { return s.p.EmitRecord(ctx, []byte("x"), 0) },
		"BroadcastRecord": func() error { return s.p.BroadcastRecord(ctx, []byte("x")) },
		"BroadcastEvent":  func() error { return s.p.BroadcastEvent(ctx, shuffle.CustomEvent{}) },
		"Finish":          func() error { return s.p.Finish(ctx) },
	} {
		require.ErrorIs(t, call(), shuffle.ErrInvalidArgument, name)
	}
	s.flush() // publishes nothing of it
	require.Equal(t, nothing, s.poll())
	require.NoError(t, s.p.Commit())
	s.finish()
	content, _ := take(t, s.c.SubpartitionView)
	require.Equal(t, framed(10, 7), content)
}

func TestReserveWaitsForASegment(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 2, 64)
		s.write(128)
		_, err := s.p.Reserve(impatient(), 0, 10)
		require.ErrorIs(t, err, context.Canceled)
		reserved := make(chan error)
		go func() {
			_, err := s.p.Reserve(context.Background(), 0, 10)
			reserved <- err
		}()
		require.Equal(t, 64, s.poll().size)
		require.NoError(t, <-reserved)
		require.NoError(t, s.p.Commit())
	})
}
