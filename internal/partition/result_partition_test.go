package partition_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestFinish(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		ctx := context.Background()
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 4, SegmentSize: 1024})
		p := link.Partition
		require.NoError(t, p.Finish(ctx))
		require.Equal(t, 1, link.Host.Finished)
		for name, call := range map[string]func() error{
			"EmitRecord":      func() error { return p.EmitRecord(ctx, make([]byte, 1024), 0) },
			"BroadcastRecord": func() error { return p.BroadcastRecord(ctx, make([]byte, 1024)) },
			"BroadcastEvent":  func() error { return p.BroadcastEvent(ctx, shuffle.CustomEvent{}) },
			"Reserve":         func() error { _, err := p.Reserve(ctx, 0, 10); return err },
			"Finish":          func() error { return p.Finish(ctx) },
			"Fail":            func() error { return p.Fail(ctx, errors.New("too late")) },
		} {
			require.ErrorIs(t, call(), shuffle.ErrFinished, name)
		}
		require.NoError(t, p.FlushAll())
		require.Zero(t, p.BuffersOut())
		require.Zero(t, p.BytesOut())
		require.Zero(t, link.Pool.Used())
		require.Empty(t, link.Host.Cause)
		require.Equal(t, 1, link.Host.Finished)
		for i := range 2 {
			require.Equal(t, 1, p.Subpartition(i).QueuedBuffers())
			_, types := drain(t, link.View(i))
			require.Equal(t, []memseg.DataType{memseg.EndOfPartition}, types)
		}
	})
}

func TestFinishNeedsNoSegmentAndNoReader(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 300, SegmentSize: 8})
		p := link.Partition
		for p.EmitRecord(impatient(), make([]byte, 8), 0) == nil {
		}
		require.NoError(t, p.Finish(impatient()))
		sizes, types := drain(t, link.View(0))
		require.Len(t, sizes, 300)
		require.Equal(t, memseg.EndOfPartition, types[300])
	})
}

// A partition that has ended refuses writes with the reason, and the first
// reason stays.
func TestEndedPartitionRefusesWritesWithTheReason(t *testing.T) {
	cause := errors.New("disk full")
	for _, row := range []struct {
		name  string
		end   func(p *partition.ResultPartition) error
		want  error
		cause string
		host  func(h *linktest.Host) any
		told  any
	}{
		{"failed", func(p *partition.ResultPartition) error { return p.Fail(context.Background(), cause) },
			shuffle.ErrPartitionFailed, "disk full", func(h *linktest.Host) any { return h.Cause }, "disk full"},
		{"failed without a cause",
			func(p *partition.ResultPartition) error { return p.Fail(context.Background(), nil) },
			shuffle.ErrPartitionFailed, "no cause", func(h *linktest.Host) any { return h.Cause },
			"no cause was given"},
		{"released", func(p *partition.ResultPartition) error { return p.Release(context.Background()) },
			shuffle.ErrPartitionReleased, "", func(h *linktest.Host) any { return h.Released }, 1},
		{"released by its host", func(p *partition.ResultPartition) error {
			p.EndedByHost(fmt.Errorf("it was consumed: %w", shuffle.ErrPartitionReleased))
			return nil
		},
			shuffle.ErrPartitionReleased, "it was consumed", func(h *linktest.Host) any { return h.Released }, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				ctx := context.Background()
				s := newStream(t, memory, 4, 1024)
				s.write(10)
				require.NoError(t, row.end(s.p))
				require.Equal(t, row.told, row.host(s.Host))
				err := s.p.EmitRecord(ctx, make([]byte, 1024), 0)
				require.ErrorIs(t, err, row.want)
				require.ErrorContains(t, err, row.cause)
				s.p.EndedByHost(shuffle.ErrPartitionReleased)
				_, reserved := s.p.Reserve(ctx, 0, 1)
				for _, again := range []error{
					s.p.EmitRecord(ctx, []byte("x"), 0), s.p.BroadcastRecord(ctx, []byte("x")), s.p.PublishOpen(0),
					s.p.BroadcastEvent(ctx, shuffle.CustomEvent{}), s.p.Finish(ctx), reserved,
				} {
					require.Equal(t, err, again)
				}
				require.Zero(t, s.Host.Finished)
				require.Equal(t, 10, s.poll().size, "what was committed can be read")
				require.Equal(t, nothing, s.poll())
			})
		})
	}
}

func TestFailPublishesWhatWasWritten(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 4, 1024)
		s.arm(500)
		reserve(t, s.p, 0, 10, 1)
		require.NoError(t, s.p.Commit()) // not committed to the reader yet
		require.NoError(t, s.p.Fail(context.Background(), errors.New("disk full")))
		require.Equal(t, 1, s.c.Rings())
		require.Equal(t, 14, s.poll().size)
	})
}

func TestEndWakesABlockedWriter(t *testing.T) {
	cause := errors.New("disk full")
	for _, row := range []struct {
		name string
		end  func(p *partition.ResultPartition) error
		want error
	}{
		{"Fail", func(p *partition.ResultPartition) error { return p.Fail(context.Background(), cause) }, cause},
		{"Release", func(p *partition.ResultPartition) error { return p.Release(context.Background()) },
			shuffle.ErrPartitionReleased},
		{"EndedByHost",
			func(p *partition.ResultPartition) error { p.EndedByHost(shuffle.ErrPartitionReleased); return nil },
			shuffle.ErrPartitionReleased},
		{"Close", (*partition.ResultPartition).Close, shuffle.ErrClosed},
	} {
		for _, write := range []struct {
			name string
			full int // buffers of subpartition 0
			call func(p *partition.ResultPartition) error
		}{
			{"before a record", 2, func(p *partition.ResultPartition) error {
				return p.EmitRecord(context.Background(), make([]byte, 10), 0)
			}},
			{"within a record", 2, func(p *partition.ResultPartition) error {
				return p.EmitRecord(context.Background(), make([]byte, 10), 1)
			}},
			{"within a broadcast record", 1, func(p *partition.ResultPartition) error {
				return p.BroadcastRecord(context.Background(), make([]byte, 1000))
			}},
			{"before a reservation", 2, func(p *partition.ResultPartition) error {
				_, err := p.Reserve(context.Background(), 0, 10)
				return err
			}},
		} {
			t.Run(row.name+", "+write.name, func(t *testing.T) {
				overMemories(t, func(t *testing.T, memory linktest.Memory) {
					link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 3,
						SegmentSize: 64})
					p := link.Partition
					emit(t, p, 60, 1) // is continued within the record
					emit(t, p, 64*write.full, 0)
					blocked := make(chan error)
					go func() { blocked <- write.call(p) }()
					require.Eventually(t, link.IsParked, wait, tick)
					require.NoError(t, row.end(p))
					require.ErrorIs(t, <-blocked, row.want)
				})
			})
		}
	}
}

func TestCloseUnmapsAndRefusesEverything(t *testing.T) {
	for _, finished := range []bool{false, true} {
		before := memseg.LiveMappings()
		ctx := context.Background()
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 2, Segments: 4,
			SegmentSize: 64})
		p := link.Partition
		emit(t, p, 10, 0)
		if finished {
			require.NoError(t, p.Finish(ctx))
		} else {
			reserve(t, p, 0, 10, 1)
		}
		builder := p.OpenBuffer(0)
		require.NoError(t, p.Close())
		require.Equal(t, before, memseg.LiveMappings())
		require.Equal(t, 1, link.Host.Closed)

		for name, call := range map[string]func() error{
			"EmitRecord":      func() error { return p.EmitRecord(ctx, []byte("x"), 0) },
			"BroadcastRecord": func() error { return p.BroadcastRecord(ctx, []byte("x")) },
			"BroadcastEvent":  func() error { return p.BroadcastEvent(ctx, shuffle.CustomEvent{}) },
			"Reserve":         func() error { _, err := p.Reserve(ctx, 0, 10); return err },
			"Commit":          p.Commit,
			"PublishOpen":     func() error { return p.PublishOpen(0) },
			"Flush":           func() error { return p.Flush(0) },
			"FlushAll":        p.FlushAll,
			"Finish":          func() error { return p.Finish(ctx) },
			"Fail":            func() error { return p.Fail(ctx, errors.New("cause")) },
			"Release":         func() error { return p.Release(ctx) },
			"AttachConsumer":  func() error { return link.TryAttach(0) },
			"PoolResized":     func() error { return p.PoolResized(4, nil) },
			"Close":           p.Close,
		} {
			require.ErrorIs(t, call(), shuffle.ErrClosed, name)
		}
		p.Abort()
		p.Reclaim()
		p.SetCounters(1, 1)
		p.SetDaemonLost(shuffle.ErrDaemonLost)
		p.EndedByHost(shuffle.ErrPartitionReleased)
		p.DetachConsumer(0, false, "late")
		require.True(t, p.IsAvailable(), "a write need not wait to fail")
		require.Nil(t, builder.Reserve(1), "the fast path finds no memory")
		require.Zero(t, link.Host.Released)
		require.Equal(t, 1, link.Host.Closed)
	}
}

func TestCloseKeepsTheDataForItsConsumers(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 4, 64)
		s.write(100)
		s.finish()
		require.NoError(t, s.p.Close())
		_, types := drain(t, s.c.SubpartitionView)
		require.Equal(t, []memseg.DataType{data, data, memseg.EndOfPartition}, types)
	})
}

// The consumer sees what was committed, and no end.
func TestCloseWithoutFinishIsNoEnd(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		s := newStream(t, memory, 4, 64)
		s.write(100)
		require.NoError(t, s.p.Close())
		require.Zero(t, s.Host.Finished)
		sizes, types := drain(t, s.c.SubpartitionView)
		require.Equal(t, []int{64, 36}, sizes)
		require.Len(t, types, 2)
		require.False(t, s.c.Ended())
	})
}

func TestPartitionWaitsForTheDaemonToBeMissedOnly(t *testing.T) {
	s := newStream(t, linktest.Heap, 2, 64)
	lost := errors.New("socket closed")
	s.write(64)
	s.p.SetDaemonLost(lost)
	s.p.SetDaemonLost(errors.New("again"))
	s.write(64) // attached pairs go on
	require.Equal(t, 64, s.poll().size)
	s.write(64)
	err := s.p.EmitRecord(context.Background(), []byte("x"), 0)
	require.ErrorIs(t, err, lost, "nobody would notice that the consumer is gone")
	require.Equal(t, 64, s.poll().size)
	require.NoError(t, s.p.EmitRecord(context.Background(), []byte("x"), 0), "it may be tried again")
}

// Less was released than the writer has asked to be woken for.
func TestWriterTakesWhatIsReleasedBeforeTheLossOfTheDaemonIsTold(t *testing.T) {
	const segments = 16
	s := newStream(t, linktest.Mapped, segments, 64)
	s.p.SetDaemonLost(shuffle.ErrDaemonLost)
	partition.SetDaemonLostGrace(t, wait) // what is asked for is not released meanwhile
	for range segments {
		s.write(64)
	}
	emitted := make(chan error, 1)
	go func() { emitted <- s.p.EmitRecord(context.Background(), make([]byte, 64), 0) }()
	require.Eventually(t, s.IsParked, wait, tick)
	require.Equal(t, 64, s.poll().size)
	require.NoError(t, <-emitted)
}

func TestRecordLargerThanALengthPrefixIsRefused(t *testing.T) {
	// Address space that is never touched.
	reserved, err := memseg.CreateMemfd("record", shuffle.MaxRecordLength+4+1)
	require.NoError(t, err)
	region, err := reserved.Map(memseg.ReadOnly, 0)
	require.NoError(t, err)
	defer func() {
		require.NoError(t, region.Close())
		require.NoError(t, reserved.Close())
	}()
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4, SegmentSize: 64})
	p := link.Partition
	tooLarge := region.Bytes()[:shuffle.MaxRecordLength+4+1]
	require.ErrorIs(t, p.EmitRecord(context.Background(), tooLarge, 0), shuffle.ErrRecordTooLarge)
	require.ErrorIs(t, p.BroadcastRecord(context.Background(), tooLarge), shuffle.ErrRecordTooLarge)
	require.Zero(t, link.Pool.Used())
	err = p.EmitRecord(impatient(), tooLarge[:len(tooLarge)-1], 0)
	require.ErrorIs(t, err, context.Canceled, "the longest one is let in")
}

func TestCursorsPassTheWrapOfSmallerCountersToo(t *testing.T) {
	for _, first := range []uint64{1, 1<<32 - 5, 1<<31 - 5, 1<<63 - 5, linktest.NearWrap} {
		link := linktest.New(t, linktest.Config{
			Memory: linktest.Heap, Subpartitions: 2, Segments: 7, SegmentSize: 24, FirstOrdinal: first,
		})
		p := link.Partition
		views := []*partition.SubpartitionView{link.View(0), link.View(1)}
		for i := range 300 {
			want := bytes.Repeat([]byte{byte(i)}, i%70)
			require.NoError(t, p.EmitRecord(context.Background(), want, i%2))
			require.NoError(t, p.FlushAll())
			var got []byte
			for views[i%2].IsAvailableBeyond(0) {
				content, _ := take(t, views[i%2])
				got = append(got, content...)
			}
			require.Equal(t, len(want), len(got), "record %d from %d", i, first)
			require.True(t, bytes.Equal(want, got))
			if i%10 == 9 {
				sendEvent(t, p, shuffle.CustomEvent{Name: "e"})
				sendEvent(t, p, newBarrier(priorityEvent))
				for _, view := range views {
					_, types := drain(t, view)
					require.Equal(t, []memseg.DataType{priorityEvent, event}, types)
				}
			}
		}
	}
}
