package memseg

import (
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A filledSegment is a segment of ten integers with its builder and consumer.
type filledSegment struct {
	t        *testing.T
	mem      []byte
	marker   PositionMarker
	builder  *BufferBuilder
	consumer *BufferConsumer
	recycled recycled
}

func newFilledSegment(t *testing.T, newRegion func(testing.TB, int) *Region) *filledSegment {
	l := testLayout(t, 1, 1, 40)
	region := newRegion(t, int(l.RegionSize()))
	segments := NewRegionSegments(region, &l)
	s := &filledSegment{t: t, mem: segments.Bytes(0), marker: segments.Marker(0)}
	s.builder = NewBufferBuilder(s.mem, s.marker)
	s.consumer = NewBufferConsumer(s.mem, s.marker, DataBuffer, &s.recycled, 7)
	return s
}

func integers(values ...uint32) []byte {
	var b []byte
	for _, v := range values {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// append writes integers without committing and checks that all of them fit.
func (s *filledSegment) append(values ...uint32) {
	s.t.Helper()
	n, err := s.builder.Append(integers(values...))
	require.NoError(s.t, err)
	require.Equal(s.t, 4*len(values), n)
}

// builds checks what the next Build of a consumer returns, and releases it.
func (s *filledSegment) builds(c *BufferConsumer, values ...uint32) {
	s.t.Helper()
	var b Buffer
	require.NoError(s.t, c.Build(&b))
	require.Equal(s.t, integers(values...), append([]byte(nil), b.Bytes()...))
	require.NoError(s.t, b.Release())
}

func overFilledSegments(t *testing.T, f func(t *testing.T, s *filledSegment)) {
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		f(t, newFilledSegment(t, newRegion))
	})
}

func TestElementIsRecycledAfterItsLastBufferAndItsConsumer(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(1, 2, 3)
		s.builder.Commit()
		var b Buffer
		require.NoError(t, s.consumer.Build(&b))
		require.NoError(t, b.Release())
		require.Empty(t, s.recycled.tokens)
		s.consumer.Close()
		require.Equal(t, []uint64{7}, s.recycled.tokens)
		s.consumer.Close()
		require.Len(t, s.recycled.tokens, 1, "a second Close does nothing")
	})
}

func TestElementOutlivesItsConsumerWhileABufferIsHeld(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(1)
		s.builder.Commit()
		var b Buffer
		require.NoError(t, s.consumer.Build(&b))
		require.NoError(t, b.Retain())
		s.consumer.Close()
		require.NoError(t, b.Release())
		require.Empty(t, s.recycled.tokens)
		require.Equal(t, integers(1), b.Bytes())
		require.NoError(t, b.Release())
		require.Equal(t, []uint64{7}, s.recycled.tokens)
	})
}

func TestOneBuildReturnsAllCommittedAppends(t *testing.T) {
	overFilledSegments(t, func(_ *testing.T, s *filledSegment) {
		for _, values := range [][]uint32{{0, 1}, {2}, {3, 42}} {
			s.append(values...)
			s.builder.Commit()
		}
		s.builds(s.consumer, 0, 1, 2, 3, 42)
	})
}

func TestAppendsAreInvisibleBeforeCommit(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		for _, values := range [][]uint32{{0, 1}, {2}, {3, 42}} {
			s.append(values...)
		}
		s.builds(s.consumer)
		require.Equal(t, 20, s.builder.Commit())
		s.builds(s.consumer, 0, 1, 2, 3, 42)
	})
}

func TestBuildOfAnEmptySegmentIsEmpty(t *testing.T) {
	overFilledSegments(t, func(_ *testing.T, s *filledSegment) { s.builds(s.consumer) })
}

func TestEachBuildReturnsWhatCameSinceTheLast(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(0, 1)
		s.append(2)
		s.builder.Commit()
		s.builds(s.consumer, 0, 1, 2)
		s.append(3, 42)
		s.append(44)
		s.builder.Commit()
		s.builds(s.consumer, 3, 42, 44)
		var rest []uint32
		for !s.builder.IsFull() {
			s.append(1337)
			rest = append(rest, 1337)
		}
		s.builder.Commit()
		require.Len(t, rest, 4)
		s.builds(s.consumer, rest...)
	})
}

func TestClosedConsumerBuildsNothing(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(1)
		s.builder.Commit()
		s.consumer.Close()
		var b Buffer
		require.ErrorIs(t, s.consumer.Build(&b), ErrReleased)
		require.Equal(t, []uint64{7}, s.recycled.tokens)
	})
}

func TestConsumerSeesTheEndWithItsNextBuild(t *testing.T) {
	for _, n := range []int{0, 5, 10} {
		overFilledSegments(t, func(t *testing.T, s *filledSegment) {
			values := make([]uint32, n)
			for i := range values {
				values[i] = uint32(i)
			}
			s.append(values...)
			s.builder.Commit()
			require.False(t, s.consumer.IsFinished())

			s.builds(s.consumer, values...)
			require.False(t, s.consumer.IsFinished())

			require.Equal(t, 4*n, s.builder.Finish())
			require.Equal(t, 4*n, s.builder.Finish(), "a second time")
			require.False(t, s.consumer.IsFinished(), "it answers from its last look")

			s.builds(s.consumer)
			require.True(t, s.consumer.IsFinished())
		})
	}
}

func TestStaticContentIsFinishedFromBirth(t *testing.T) {
	for _, content := range [][]byte{nil, integers(1, 2)} {
		var r recycled
		c := NewStaticBufferConsumer(content, EventBuffer, &r, 3)
		require.True(t, c.IsFinished())
		require.Equal(t, EventBuffer, c.DataType())
		var b Buffer
		require.NoError(t, c.Build(&b))
		require.Equal(t, content, b.Bytes())
		require.Equal(t, EventBuffer, b.DataType())
		c.Close()
		require.Empty(t, r.tokens)
		require.NoError(t, b.Release())
		require.Equal(t, []uint64{3}, r.tokens)
	}
}

func TestResetConsumerDoesNotTouchHeldElements(t *testing.T) {
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		s.append(1)
		s.builder.Commit()
		var first, second Buffer
		require.NoError(t, s.consumer.Build(&first))
		s.consumer.Close()
		s.consumer.ResetStatic(integers(9), EventBuffer, &s.recycled, 8)
		require.NoError(t, s.consumer.Build(&second))
		s.consumer.Close()
		require.NoError(t, second.Release())
		require.Equal(t, []uint64{8}, s.recycled.tokens)
		require.NoError(t, first.Release())
		require.Equal(t, []uint64{8, 7}, s.recycled.tokens)
		s.consumer.ResetStatic(integers(9), EventBuffer, &s.recycled, 9)
		s.consumer.Close()
		require.Equal(t, []uint64{8, 7, 9}, s.recycled.tokens)
	})
}

func TestConsumerRefusesMarkersThatNoBuilderStores(t *testing.T) {
	for _, row := range []struct {
		name         string
		seen, stored int32
	}{
		{"beyond the segment", 0, 41},
		{"far beyond the segment", 0, math.MaxInt32},
		{"finished beyond the segment", 0, -41},
		{"finished far beyond the segment", 0, -math.MaxInt32},
		{"went back", 20, 16},
		{"went back to empty", 20, 0},
		{"finished below what was committed", 20, -16},
		{"finished empty below what was committed", 20, math.MinInt32},
		{"grew after the end", -20, -24},
		{"shrank after the end", -20, -16},
		{"is open after the end", -20, 20},
		{"is open and full after the end", -20, 40},
		{"is empty after an empty end", math.MinInt32, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			overFilledSegments(t, func(t *testing.T, s *filledSegment) {
				var b Buffer
				s.marker.store(Position(row.seen))
				require.NoError(t, s.consumer.Build(&b))
				require.NoError(t, b.Release())
				s.marker.store(Position(row.stored))

				require.ErrorIs(t, s.consumer.Build(&b), ErrCorrupt)
				s.consumer.Close()
				require.Equal(t, []uint64{7}, s.recycled.tokens, "a refused Build takes no reference")
			})
		})
	}
}

func TestEveryMarkerIsReadInBoundsOrRefused(t *testing.T) {
	random := newRandom(t)
	overFilledSegments(t, func(t *testing.T, s *filledSegment) {
		for range 5000 {
			s.consumer.Reset(s.mem, s.marker, DataBuffer, nil, 0)
			read := 0
			for range 4 {
				p := Position(random.Int32() >> random.IntN(32))
				if random.IntN(2) == 0 {
					p = -p
				}
				s.marker.store(p)
				var b Buffer
				if err := s.consumer.Build(&b); err != nil {
					require.ErrorIs(t, err, ErrCorrupt)
					continue
				}
				read += b.Len()
				require.LessOrEqual(t, read, 40)
				require.Equal(t, read, p.Bytes())
			}
		}
	})
}
