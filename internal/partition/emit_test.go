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

// partialLengths returns how many bytes at the start of each data buffer of a
// subpartition belong to a record begun before.
func partialLengths(l *linktest.Link, subpartition int) []int {
	var lengths []int
	for _, d := range l.ReadPublished(subpartition) {
		if d.Type.IsBuffer() {
			lengths = append(lengths, d.PartialRecordLength)
		}
	}
	return lengths
}

func TestRecordsSpanBuffers(t *testing.T) {
	const segment = 1024
	for _, row := range []struct {
		name    string
		records []int
		// What the subpartition holds then:
		finished []int // sizes of the finished buffers
		open     int   // bytes of the open one, -1 for none
		partial  []int
	}{
		{"one that fits", []int{341}, nil, 341, []int{0}},
		{"the second goes on in another buffer", []int{341, 1024}, []int{1024}, 341, []int{0, 341}},
		{"exactly the free space leaves no open buffer", []int{341, 683}, []int{1024}, -1, []int{0}},
		{"a buffer exactly", []int{1024}, []int{1024}, -1, []int{0}},
		{"one byte more than a buffer", []int{1025}, []int{1024}, 1, []int{0, 1}},
		{"three buffers and a half", []int{3584}, []int{1024, 1024, 1024}, 512, []int{0, 1024, 1024, 512}},
		{"three buffers exactly", []int{3072}, []int{1024, 1024, 1024}, -1, []int{0, 1024, 1024}},
		{"no byte opens a buffer", []int{0}, nil, 0, []int{0}},
		{"no byte at a buffer's end opens another", []int{1024, 0}, []int{1024}, 0, []int{0, 0}},
		{"a buffer after no byte", []int{0, 1024, 1}, []int{1024}, 1, []int{0, 0}},
	} {
		for _, toAll := range []bool{false, true} {
			name := row.name
			if toAll {
				name += ", broadcast"
			}
			t.Run(name, func(t *testing.T) {
				overMemories(t, func(t *testing.T, memory linktest.Memory) {
					link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 8,
						SegmentSize: segment})
					p := link.Partition
					readers := []int{1}
					if toAll {
						readers = []int{0, 1}
					}
					var written []byte
					for i, n := range row.records {
						record := bytes.Repeat([]byte{byte(i + 1)}, n)
						if toAll {
							require.NoError(t, p.BroadcastRecord(context.Background(), record))
						} else {
							require.NoError(t, p.EmitRecord(context.Background(), record, 1))
						}
						written = append(written, record...)
					}
					total := 0
					for _, n := range row.finished {
						total += n
					}
					require.EqualValues(t, len(row.finished)*len(readers), p.BuffersOut())
					require.EqualValues(t, total*len(readers), p.BytesOut())
					require.Equal(t, len(row.partial), link.Pool.Used(), "a broadcast segment counts once")

					for _, sub := range readers {
						require.Equal(t, row.partial, partialLengths(link, sub))
						require.Equal(t, len(row.partial), p.Subpartition(sub).QueuedBuffers())
						view := link.View(sub)
						var read []byte
						for _, n := range row.finished {
							content, typ := take(t, view)
							require.Equal(t, memseg.DataBuffer, typ)
							require.Len(t, content, n)
							read = append(read, content...)
						}
						if row.open > 0 {
							content, _ := take(t, view)
							require.Len(t, content, row.open)
							read = append(read, content...)
						}
						require.Equal(t, nothing, poll(t, view))
						require.Equal(t, written, read)
					}
					if !toAll {
						require.Zero(t, p.Subpartition(0).QueuedBuffers())
					}
				})
			})
		}
	}
}

func TestRecordLargerThanThePoolPassesWhileItIsRead(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, toAll := range []bool{false, true} {
			link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 2, SegmentSize: 64})
			view := link.View(0)
			record := make([]byte, 50*64+7)
			for i := range record {
				record[i] = byte(i * 7)
			}
			written := make(chan error)
			go func() {
				if toAll {
					written <- link.Partition.BroadcastRecord(context.Background(), record)
				} else {
					written <- link.Partition.EmitRecord(context.Background(), record, 0)
				}
			}()
			var read []byte
			done := false
			for len(read) < len(record) {
				content, _ := take(t, view)
				read = append(read, content...)
				if !done {
					select {
					case err := <-written:
						require.NoError(t, err)
						done = true
					default:
					}
				}
			}
			if !done {
				require.NoError(t, <-written)
			}
			require.Equal(t, record, read)
		}
	})
}

func TestWritesAreRefusedBeforeAnythingIsTaken(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		ctx := context.Background()
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 4, SegmentSize: 64})
		p := link.Partition
		for _, row := range []struct {
			name string
			call func() error
			want error
		}{
			{"emit to a negative subpartition", func() error { return p.EmitRecord(ctx, []byte("x"), -1) },
				shuffle.ErrInvalidArgument},
			{"emit to the one after the last", func() error { return p.EmitRecord(ctx, []byte("x"), 2) },
				shuffle.ErrInvalidArgument},
			{"flush a negative subpartition", func() error { return p.Flush(-1) }, shuffle.ErrInvalidArgument},
			{"flush the one after the last", func() error { return p.Flush(2) }, shuffle.ErrInvalidArgument},
			{"publish the one after the last", func() error { return p.PublishOpen(2) }, shuffle.ErrInvalidArgument},
			{"an event that fits no slot", func() error {
				return p.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "n", Body: make([]byte, memseg.EventSlotSize)})
			}, shuffle.ErrEventTooLarge},
		} {
			t.Run(row.name, func(t *testing.T) {
				require.ErrorIs(t, row.call(), row.want)
				require.Zero(t, link.Pool.Used())
				require.Zero(t, p.BuffersOut())
				require.Empty(t, link.ReadPublished(0))
				require.Empty(t, link.ReadPublished(1))
			})
		}
	})
}

func TestOversizedEventLeavesTheOpenBufferOpen(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4, SegmentSize: 64})
	emit(t, link.Partition, 10, 0)
	err := link.Partition.BroadcastEvent(context.Background(),
		shuffle.CustomEvent{Body: make([]byte, memseg.EventSlotSize)})
	require.ErrorIs(t, err, shuffle.ErrEventTooLarge)
	emit(t, link.Partition, 10, 0)
	require.Equal(t, 1, link.Pool.Used())
	require.Zero(t, link.Partition.BuffersOut())
}

func TestCountersLagUntilABufferIsFinished(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64})
	p := link.Partition
	counters := func() [2]int64 { return [2]int64{p.BytesOut(), p.BuffersOut()} }

	emit(t, p, 10, 0)
	require.NoError(t, p.FlushAll())
	require.Equal(t, [2]int64{0, 0}, counters(), "a flush finishes nothing")
	emit(t, p, 54, 0)
	require.Equal(t, [2]int64{64, 1}, counters())
	emit(t, p, 3, 1)
	broadcast(t, p, 5)
	require.Equal(t, [2]int64{67, 2}, counters(), "broadcasting finishes the open unicast buffers")
	sendEvent(t, p, shuffle.CustomEvent{Name: "e"})
	require.Equal(t, [2]int64{77, 4}, counters(), "a broadcast buffer counts for each receiver, an event for none")
	emit(t, p, 0, 0)
	sendEvent(t, p, shuffle.CustomEvent{Name: "e"})
	require.Equal(t, [2]int64{77, 5}, counters(), "an empty buffer is a buffer")
}

func TestChangingBetweenUnicastAndBroadcastFinishesTheOpenBuffers(t *testing.T) {
	const subpartitions = 8
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: subpartitions, Segments: 32,
		SegmentSize: 32})
	p := link.Partition
	for i := range subpartitions {
		emit(t, p, 8, i)
		broadcast(t, p, 8)
	}
	require.Equal(t, 16, link.Pool.Used())
	for i := range subpartitions {
		require.Equal(t, 9, p.Subpartition(i).QueuedBuffers())
	}
	// Nothing was finished twice: every buffer but the shared open one counts.
	require.EqualValues(t, 8+7*subpartitions, p.BuffersOut())
	require.EqualValues(t, 8*(8+7*subpartitions), p.BytesOut())
}

func TestBroadcastDoesNotShareABufferWithUnicast(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 8, SegmentSize: 1024})
		p := link.Partition
		ctx := context.Background()
		require.NoError(t, p.EmitRecord(ctx, []byte("un1-"), 0))
		require.NoError(t, p.EmitRecord(ctx, []byte("un2-"), 0))
		require.NoError(t, p.BroadcastRecord(ctx, []byte("all1")))
		require.NoError(t, p.BroadcastRecord(ctx, []byte("all2")))
		require.NoError(t, p.EmitRecord(ctx, []byte("un3-"), 0))
		require.NoError(t, p.Finish(ctx))

		first := link.View(0)
		for _, want := range []string{"un1-un2-", "all1all2", "un3-"} {
			content, _ := take(t, first)
			require.Equal(t, want, string(content))
		}
		second := link.View(1)
		content, _ := take(t, second)
		require.Equal(t, "all1all2", string(content))
		for _, view := range []*partition.SubpartitionView{first, second} {
			_, typ := take(t, view)
			require.Equal(t, memseg.EndOfPartition, typ)
			require.Equal(t, nothing, poll(t, view))
		}
	})
}

func TestBroadcastSegmentReturnsAfterTheSlowestReader(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 3, Segments: 4, SegmentSize: 16})
	p := link.Partition
	views := []*partition.SubpartitionView{link.View(0), link.View(1), link.View(2)}
	broadcast(t, p, 16)
	for i, view := range views {
		p.Reclaim()
		require.Equal(t, 1, link.Pool.Used(), "%d of 3 have read it", i)
		require.Equal(t, 16, poll(t, view).size)
	}
	p.Reclaim()
	require.Zero(t, link.Pool.Used())
}

func TestBroadcastReadersSeeTheSameMemory(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 4, SegmentSize: 16})
	views := []*partition.SubpartitionView{link.View(0), link.View(1)}
	broadcast(t, link.Partition, 16)
	a, b := hold(t, views[0]), hold(t, views[1])
	require.Same(t, &a.Bytes()[0], &b.Bytes()[0])
	require.NoError(t, a.Release())
	require.NoError(t, b.Release())
}

func TestFullAndPartialBuffersOfTheOtherModeAreFinishedFirst(t *testing.T) {
	// Free segments after each step, with a pool of three.
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Required: 3, Segments: 3,
		SegmentSize: 32})
	p := link.Partition
	views := []*partition.SubpartitionView{link.View(0), link.View(1)}
	free := func() int { return link.Pool.Size() - link.Pool.Used() }
	require.Equal(t, 3, free())
	emit(t, p, 8, 0)
	require.Equal(t, 2, free())
	emit(t, p, 8, 0)
	require.Equal(t, 2, free(), "it fits the open buffer")
	broadcast(t, p, 8)
	require.Equal(t, 1, free())
	for _, view := range views {
		drain(t, view)
	}
	p.Reclaim()
	require.Equal(t, 2, free(), "the broadcast buffer is still open")
}

func TestErrorWithinARecordEndsThePartition(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, row := range []struct {
			name   string
			before int // bytes in the open buffer
			write  func(p *partition.ResultPartition) error
			cut    bool
		}{
			{"nothing of it was written", 64,
				func(p *partition.ResultPartition) error { return p.EmitRecord(impatient(), make([]byte, 64), 0) },
				false},
			{"its beginning was written", 48,
				func(p *partition.ResultPartition) error { return p.EmitRecord(impatient(), make([]byte, 64), 0) },
				true},
			{"broadcast, nothing of it was written", 64,
				func(p *partition.ResultPartition) error { return p.BroadcastRecord(impatient(), make([]byte, 64)) },
				false},
		} {
			t.Run(row.name, func(t *testing.T) {
				link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 2, SegmentSize: 64})
				p := link.Partition
				view := link.View(0)
				emit(t, p, 64, 0)
				emit(t, p, row.before, 0)
				err := row.write(p)
				require.ErrorIs(t, err, context.Canceled)
				require.Equal(t, 64, poll(t, view).size)
				again := p.EmitRecord(context.Background(), []byte("again"), 0)
				if !row.cut {
					require.NoError(t, again)
					return
				}
				require.Equal(t, err, again)
				require.Equal(t, err, p.BroadcastEvent(context.Background(), shuffle.CustomEvent{}))
				require.Equal(t, err, p.Finish(context.Background()),
					"a stream that ends in a record has no end of partition")
				require.Zero(t, link.Host.Finished)
			})
		}
	})
}

func TestCutErrorSaysSo(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 16})
	cause := errors.New("the user gave up")
	ctx, cancel := context.WithCancelCause(context.Background())
	emitted := make(chan error)
	go func() { emitted <- link.Partition.EmitRecord(ctx, make([]byte, 100), 0) }()
	require.Eventually(t, link.IsParked, wait, tick)
	cancel(cause)
	err := <-emitted
	require.ErrorIs(t, err, cause)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "record cut")
	require.ErrorContains(t, err, link.Partition.ID().String())
}

func TestRecordIsNotCutForTheLastBytesOfABuffer(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, row := range []struct {
			name   string
			before int // bytes in the open buffer, of 1024
			record int
			want   []int
		}{
			{"a sixteenth is left", 960, 65, []int{960, 65}},
			{"more than a sixteenth is left", 959, 66, []int{1024, 1}},
			{"it fits", 960, 64, []int{1024}},
			{"it fits no segment", 960, 1025, []int{1024, 961}},
		} {
			for _, broadcast := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s, broadcast %t", row.name, broadcast), func(t *testing.T) {
					link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 4,
						SegmentSize: 1024})
					view := link.View(0)
					for _, n := range []int{row.before, row.record} {
						if broadcast {
							require.NoError(t, link.Partition.BroadcastRecord(context.Background(), make([]byte, n)))
						} else {
							emit(t, link.Partition, n, 0)
						}
					}
					require.NoError(t, link.Partition.FlushAll())
					var got []int
					for range row.want {
						got = append(got, poll(t, view).size)
					}
					require.Equal(t, row.want, got)
				})
			}
		}
	})
}
