package memseg

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAppendReturnsHowMuchFitted(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(0, 1, 2, 3, 42)
		require.False(t, s.builder.IsFull())
		require.Equal(t, 20, s.builder.Commit())
		s.builds(s.consumer, 0, 1, 2, 3, 42)
	})
}

func TestAppendBeyondTheSegmentStopsAtItsEnd(t *testing.T) {
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		first, second := newFilledSegment(t, newRegion), newFilledSegment(t, newRegion)
		src := integers(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 42)
		n, err := first.builder.Append(src)
		require.NoError(t, err)
		first.builder.Commit()
		require.Equal(t, 40, n)
		require.True(t, first.builder.IsFull())
		require.Zero(t, first.builder.WritableBytes())
		first.builds(first.consumer, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)

		n, err = second.builder.Append(src[n:])
		require.NoError(t, err)
		second.builder.Commit()
		require.Equal(t, 4, n)
		require.False(t, second.builder.IsFull())
		second.builds(second.consumer, 42)

		n, err = first.builder.Append(src)
		require.NoError(t, err)
		first.builder.Commit()
		require.Zero(t, n, "nothing fits a full segment")
	})
}

func TestWritableBytesCountWhatIsWrittenNotWhatIsCommitted(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		require.Equal(t, 40, s.builder.WritableBytes())
		s.append(1, 2, 3)
		require.Equal(t, 28, s.builder.WritableBytes())
		require.Equal(t, Position(0), s.marker.Load())
	})
}

func TestNothingIsAppendedAfterFinish(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(1, 2)
		require.Equal(t, 8, s.builder.Finish(), "it commits what was written")
		_, err := s.builder.Append(integers(3))
		require.ErrorIs(t, err, ErrBuilderFinished)
		require.Nil(t, s.builder.Reserve(1))
		require.Zero(t, s.builder.WritableBytes())
		require.Equal(t, 8, s.builder.Commit())
		require.Equal(t, 8, s.builder.PublishWritten())
		require.Equal(t, Position(-8), s.marker.Load())
		s.builds(s.consumer, 1, 2)
		require.True(t, s.consumer.IsFinished())
	})
}

func TestReservedBytesAreKeptByAdvanceAlone(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		dropped := s.builder.Reserve(8)
		copy(dropped, "dropped!")
		require.Equal(t, 8, cap(dropped), "cannot grow into what follows")
		s.builder.Commit()
		require.Equal(t, Position(0), s.marker.Load(), "without Advance nothing was written")

		kept := s.builder.Reserve(4)
		require.Same(t, &dropped[0], &kept[0], "the bytes are free again")
		copy(kept, integers(42))
		require.False(t, s.builder.Advance(4))
		require.Equal(t, Position(0), s.marker.Load(), "Advance publishes nothing")
		s.builder.Commit()
		s.builds(s.consumer, 42)

		require.Nil(t, s.builder.Reserve(37))
		require.Nil(t, s.builder.Reserve(-1))
		require.Len(t, s.builder.Reserve(36), 36)
		require.Empty(t, s.builder.Reserve(0))
	})
}

func TestAdvanceAsksForACommitAtStepsAndAtTheEnd(t *testing.T) {
	const size = 2*CommitStep + 100
	b := NewBufferBuilder(make([]byte, size), NewPositionMarker())
	for _, row := range []struct {
		n   int
		due bool
	}{
		{CommitStep - 1, false}, {1, true}, // a whole step
		{10, false}, {CommitStep - 10, true}, // counted from the last commit
		{99, false}, {1, true}, // the segment is full
	} {
		require.NotNil(t, b.Reserve(row.n))
		require.Equal(t, row.due, b.Advance(row.n), "at %d", b.pos)
		if row.due {
			b.Commit()
		}
	}
	require.True(t, b.IsFull())

	small := NewBufferBuilder(make([]byte, 8), NewPositionMarker())
	require.False(t, small.Advance(7))
	require.True(t, small.Advance(1), "a segment smaller than a step")
}

func TestCommitWithNothingNewStoresNothing(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(1)
		s.builder.Commit()
		s.marker.store(77) // nobody else writes it: a store by Commit would show
		require.Equal(t, 4, s.builder.Commit())
		require.Equal(t, 4, s.builder.PublishWritten())
		require.Equal(t, Position(77), s.marker.Load())
	})
}

func TestResetStartsAnEmptySegment(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(1, 2)
		s.builder.Finish()
		s.builder.Reset(s.mem[:20], s.marker)
		require.Equal(t, Position(0), s.marker.Load())
		require.Equal(t, 20, s.builder.WritableBytes())
		c := NewBufferConsumer(s.mem[:20], s.marker, DataBuffer, nil, 0)
		s.append(9)
		s.builder.Commit()
		s.builds(c, 9)
	})
}

// TestPublishingBesideAWriterShowsWholeRecordsInOrder runs what a writer, an
// output flusher and a consumer do to one subpartition. A record is its length,
// then so many bytes that count up from its number; it never spans segments.
func TestPublishingBesideAWriterShowsWholeRecordsInOrder(t *testing.T) {
	const segmentSize, segments = 3*CommitStep + 100, 12
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		random := newRandom(t)
		l := testLayout(t, 1, segments, segmentSize)
		region := newRegion(t, int(l.RegionSize()))

		var mu sync.Mutex // the subpartition's lock
		var b BufferBuilder
		var started atomic.Int32 // segments that the consumer may open
		var written atomic.Int64 // records, when all are
		written.Store(-1)
		memory := NewRegionSegments(region, &l)
		b.Reset(memory.Bytes(0), memory.Marker(0))
		started.Store(1)

		var wg sync.WaitGroup
		stop := make(chan struct{})
		wg.Go(func() { // the output flusher
			last, lastSegment := 0, int32(0)
			for {
				select {
				case <-stop:
					return
				default:
				}
				mu.Lock()
				segment, n := started.Load(), b.PublishWritten()
				mu.Unlock()
				if segment == lastSegment && n < last {
					panic("the marker went back")
				}
				last, lastSegment = n, segment
				runtime.Gosched()
			}
		})
		wg.Go(func() { // the writer
			records := 0
			for segment := 0; ; {
				n := 1 + random.IntN(200)
				dst := b.Reserve(4 + n)
				if dst == nil {
					mu.Lock()
					b.Finish()
					if segment++; segment == segments {
						mu.Unlock()
						written.Store(int64(records))
						return
					}
					b.Reset(memory.Bytes(segment), memory.Marker(segment))
					started.Add(1)
					mu.Unlock()
					continue
				}
				binary.BigEndian.PutUint32(dst, uint32(n))
				for i := range n {
					dst[4+i] = byte(records + i)
				}
				records++
				if b.Advance(4 + n) {
					mu.Lock()
					b.Commit()
					mu.Unlock()
				}
			}
		})

		records := 0
		for segment := range segments {
			for int(started.Load()) <= segment {
				runtime.Gosched()
			}
			c := NewBufferConsumer(memory.Bytes(segment), memory.Marker(segment), DataBuffer, nil, 0)
			for !c.IsFinished() {
				var view Buffer
				require.NoError(t, c.Build(&view))
				for rest := view.Bytes(); len(rest) > 0; records++ {
					require.GreaterOrEqual(t, len(rest), 4, "a part of a record")
					n := int(binary.BigEndian.Uint32(rest))
					require.GreaterOrEqual(t, len(rest)-4, n, "a part of a record")
					want := make([]byte, n)
					for i := range want {
						want[i] = byte(records + i)
					}
					if !bytes.Equal(want, rest[4:4+n]) {
						require.Equal(t, want, rest[4:4+n], "record %d", records)
					}
					rest = rest[4+n:]
				}
				require.NoError(t, view.Release())
			}
			c.Close()
		}
		close(stop)
		wg.Wait()
		require.EqualValues(t, written.Load(), records)
	})
}
