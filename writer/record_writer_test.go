package writer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

func TestRecordsStandBehindTheirLength(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8, SegmentSize: 32})
		w := newWriter(t, link, writer.Forward[[]byte]())
		view := link.View(0)
		var want []byte
		for _, n := range []int{0, 5, 28, 100, 1, 24, 0} {
			rec := bytes.Repeat([]byte{byte(n)}, n)
			require.NoError(t, w.Emit(context.Background(), rec))
			want = append(want, framed(rec)...)
		}
		require.NoError(t, w.Flush())
		var got []byte
		for content := take(t, view); content != nil; content = take(t, view) {
			got = append(got, content...)
		}
		require.Equal(t, want, got)
	})
}

// plainBytes is a codec that the writer knows nothing of.
type plainBytes struct{ codec shuffle.Bytes }

func (c plainBytes) Size(rec []byte) int               { return c.codec.Size(rec) }
func (c plainBytes) Append(dst, rec []byte) []byte     { return c.codec.Append(dst, rec) }
func (c plainBytes) Decode(src []byte) ([]byte, error) { return c.codec.Decode(src) }

func TestBytesAreWrittenAsByAnyOtherCodec(t *testing.T) {
	var streams [][]byte
	for _, codec := range []shuffle.Codec[[]byte]{shuffle.Bytes{}, plainBytes{}} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 64, SegmentSize: 32})
		w, err := writer.New(link.Partition, codec, writer.Forward[[]byte](),
			writer.WithBufferTimeout(writer.FlushNever))
		require.NoError(t, err)
		view := link.View(0)
		for n := range 60 {
			require.NoError(t, w.Emit(context.Background(), bytes.Repeat([]byte{byte(n)}, n%40)))
		}
		require.NoError(t, w.Flush())
		var stream []byte
		for content := take(t, view); content != nil; content = take(t, view) {
			stream = append(stream, content...)
		}
		streams = append(streams, stream)
	}
	require.Equal(t, streams[0], streams[1])
}

func TestEmitGoesWhereTheSelectorSays(t *testing.T) {
	toLength := func(rec []byte, _ int) int { return len(rec) }
	for _, row := range []struct {
		name     string
		selector writer.ChannelSelector[[]byte]
		want     []int // records of each subpartition
	}{
		{"broadcast", writer.Broadcast[[]byte](), []int{4, 4, 4}},
		{"custom", writer.Custom(toLength), []int{1, 2, 1}},
		{"custom to all", writer.Custom(func([]byte, int) int { return writer.AllChannels }), []int{4, 4, 4}},
	} {
		t.Run(row.name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 3, Segments: 8,
				SegmentSize: 128})
			w := newWriter(t, link, row.selector)
			records := map[int]int{}
			for _, rec := range []string{"", "a", "b", "cc"} {
				require.NoError(t, w.Emit(context.Background(), []byte(rec)))
			}
			require.NoError(t, w.Flush())
			for i := range 3 {
				for rest := take(t, link.View(i)); len(rest) > 0; rest = rest[4+int(rest[3]):] {
					records[i]++
				}
			}
			require.Equal(t, row.want, []int{records[0], records[1], records[2]})
			require.NoError(t, w.Finish(context.Background()))
			require.EqualValues(t, 4, w.Counters().Records, "a broadcast record counts once")
		})
	}
}

func TestWriterUsesSegmentsAs(t *testing.T) {
	ctx := context.Background()
	eightInts := func(t *testing.T, write func(rec []byte) error) {
		for i := range byte(8) {
			require.NoError(t, write([]byte{0, 0, 0, i}))
		}
	}
	for _, row := range []struct {
		name        string
		channels    int
		segmentSize int
		write       func(t *testing.T, w *writer.RecordWriter[[]byte])
		used        int
		queued      []int
	}{
		{"an event takes none", 4, 32, func(t *testing.T, w *writer.RecordWriter[[]byte]) {
			require.NoError(t, w.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "e"}))
		}, 0, []int{1, 1, 1, 1}},
		{"unicast records and an event", 4, 32, func(t *testing.T, w *writer.RecordWriter[[]byte]) {
			for i, n := range []int{16, 33, 28} {
				require.NoError(t, w.EmitTo(ctx, framedRecord(n), i))
			}
			require.NoError(t, w.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "e"}))
		}, 4, []int{2, 3, 2, 1}},
		{"broadcast records and an event", 4, 32, func(t *testing.T, w *writer.RecordWriter[[]byte]) {
			for _, n := range []int{16, 33, 28} {
				require.NoError(t, w.Broadcast(ctx, framedRecord(n)))
			}
			require.NoError(t, w.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "e"}))
		}, 3, []int{4, 4, 4, 4}},
		{"eight broadcast integers", 4, 32, func(t *testing.T, w *writer.RecordWriter[[]byte]) {
			eightInts(t, func(rec []byte) error { return w.Broadcast(ctx, rec) })
		}, 2, []int{2, 2, 2, 2}},
		{"eight integers to each of four", 4, 32, func(t *testing.T, w *writer.RecordWriter[[]byte]) {
			for i := range 4 {
				eightInts(t, func(rec []byte) error { return w.EmitTo(ctx, rec, i) })
			}
		}, 8, []int{2, 2, 2, 2}},
		{"one to each in turn with a broadcast", 8, 32, func(t *testing.T, w *writer.RecordWriter[[]byte]) {
			for i := range 8 {
				require.NoError(t, w.EmitTo(ctx, []byte("text"), i))
				require.NoError(t, w.Broadcast(ctx, []byte("text")))
			}
		}, 16, []int{9, 9, 9, 9, 9, 9, 9, 9}},
	} {
		t.Run(row.name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: row.channels, Segments: 32,
				SegmentSize: row.segmentSize})
			w := newWriter(t, link, writer.Broadcast[[]byte]())
			row.write(t, w)
			require.Equal(t, row.used, link.Pool.Used())
			require.Equal(t, row.queued, queued(link))
		})
	}
}

func TestWriterIsAvailable(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 1, SegmentSize: 64})
		w := newWriter(t, link, writer.Forward[[]byte]())
		view := link.View(0)
		require.True(t, w.IsAvailable())
		require.NoError(t, w.Emit(linktest.Impatient(), framedRecord(64)))
		require.False(t, w.IsAvailable())
		require.ErrorIs(t, w.Emit(linktest.Impatient(), framedRecord(64)), context.Canceled)
		require.Positive(t, w.Counters().BackPressured)
		require.NotNil(t, take(t, view))
		require.True(t, w.IsAvailable())
		require.NoError(t, w.Emit(linktest.Impatient(), framedRecord(64)))
	})
}

func TestEmitWaitsForASegment(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 2, SegmentSize: 64})
		w := newWriter(t, link, writer.Forward[[]byte]())
		view := link.View(0)
		require.NoError(t, w.Emit(linktest.Impatient(), framedRecord(128)))
		blocked := make(chan error)
		go func() { blocked <- w.Emit(context.Background(), framedRecord(20)) }()
		require.Eventually(t, link.IsParked, wait, tick)
		require.Len(t, take(t, view), 64)
		require.NoError(t, <-blocked)
		require.NoError(t, w.Finish(context.Background()))
		require.EqualValues(t, 2, w.Counters().Records)
	})
}

// A lying codec breaks its record and nothing else.
type lying struct {
	shuffle.Strings
	promise func(rec string) int
}

func (l lying) Size(rec string) int { return l.promise(rec) }

func TestCodecMustKeepItsPromise(t *testing.T) {
	for _, row := range []struct {
		name    string
		promise func(n int) int
		want    error
	}{
		{"one byte less", func(n int) int { return n - 1 }, shuffle.ErrCorruptRecord},
		{"one byte more", func(n int) int { return n + 1 }, shuffle.ErrCorruptRecord},
		{"nothing", func(int) int { return 0 }, shuffle.ErrCorruptRecord},
		{"minus one", func(int) int { return -1 }, shuffle.ErrCorruptRecord},
		{"minus the length of the prefix", func(int) int { return -4 }, shuffle.ErrCorruptRecord},
		{"the smallest number", func(int) int { return math.MinInt }, shuffle.ErrCorruptRecord},
		{"two gibibytes", func(int) int { return 1 << 31 }, shuffle.ErrRecordTooLarge},
		{"the largest number", func(int) int { return math.MaxInt }, shuffle.ErrRecordTooLarge},
	} {
		for _, opened := range []bool{false, true} { // a buffer is open: the short way
			name := row.name
			if opened {
				name += ", on the short way"
			}
			t.Run(name, func(t *testing.T) {
				lies := false
				codec := lying{promise: func(rec string) int {
					if lies {
						return row.promise(len(rec))
					}
					return len(rec)
				}}
				link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8,
					SegmentSize: 128})
				w, err := writer.New(link.Partition, codec, toFirst[string](),
					writer.WithBufferTimeout(writer.FlushNever))
				require.NoError(t, err)
				view := link.View(0)
				ctx := context.Background()
				var want []byte
				if opened {
					require.NoError(t, w.Emit(ctx, "before"))
					want = append(want, framed([]byte("before"))...)
				}
				before := w.Counters()
				lies = true
				require.ErrorIs(t, w.Emit(ctx, "a lie"), row.want)
				require.ErrorIs(t, w.Broadcast(ctx, "a lie"), row.want)
				lies = false
				require.Equal(t, before, w.Counters())
				require.NoError(t, w.Emit(ctx, "after"))
				want = append(want, framed([]byte("after"))...)
				require.NoError(t, w.Flush())
				require.Equal(t, want, take(t, view), "nothing of it was written")
			})
		}
	}
}

// A selector's result is used as an index only after it was checked.
func TestSubpartitionIsChecked(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 128})
	target := 0
	w := newWriter(t, link, writer.Custom(func([]byte, int) int { return target }))
	for _, target = range []int{-2, 2, math.MaxInt, math.MinInt} {
		for _, err := range []error{w.Emit(context.Background(), []byte("x")),
			w.EmitTo(context.Background(), []byte("x"), target)} {
			require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
			require.ErrorContains(t, err, fmt.Sprintf("subpartition %d of 2", target))
		}
	}
	require.ErrorIs(t, w.EmitTo(context.Background(), []byte("x"), writer.AllChannels), shuffle.ErrInvalidArgument)
	require.Zero(t, link.Pool.Used())
	require.Zero(t, w.Counters().Records)
}

func TestNewWriterIsChecked(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 128})
	for _, timeout := range []time.Duration{-2, -time.Second, math.MinInt64} {
		_, err := writer.New(link.Partition, shuffle.Bytes{}, toFirst[[]byte](), writer.WithBufferTimeout(timeout))
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	}
	_, err := writer.New(link.Partition, shuffle.Bytes{}, writer.Custom[[]byte](nil))
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.ErrorContains(t, err, link.Partition.ID().String())
	_, err = writer.New(link.Partition, shuffle.Bytes{}, writer.KeyGroups(writer.HashBytes, 1))
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument, "more subpartitions than key groups")
}

func TestFinishedWriterRefusesRecords(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		ctx := context.Background()
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 8, SegmentSize: 128})
		w := newWriter(t, link, toFirst[[]byte](), writer.WithBufferTimeout(time.Hour))
		require.NoError(t, w.Emit(ctx, []byte("last")))
		require.NoError(t, w.Finish(ctx))
		require.Equal(t, 1, link.Host.Finished)
		counters, used := w.Counters(), link.Pool.Used()
		require.Equal(t, writer.Counters{Records: 1, Bytes: 8, Buffers: 1}, counters)
		for name, call := range map[string]func() error{
			"Emit":           func() error { return w.Emit(ctx, []byte("x")) },
			"EmitTo":         func() error { return w.EmitTo(ctx, nil, 1) },
			"Broadcast":      func() error { return w.Broadcast(ctx, []byte("x")) },
			"BroadcastEvent": func() error { return w.BroadcastEvent(ctx, shuffle.CustomEvent{}) },
			"Finish":         func() error { return w.Finish(ctx) },
			"Fail":           func() error { return w.Fail(ctx, errors.New("cause")) },
		} {
			require.ErrorIs(t, call(), shuffle.ErrFinished, name)
		}
		require.NoError(t, w.Flush())
		require.Equal(t, counters, w.Counters())
		require.Equal(t, used, link.Pool.Used())
	})
}

func TestClosedWriterRefusesEverything(t *testing.T) {
	for _, finished := range []bool{false, true} {
		ctx := context.Background()
		before := memseg.LiveMappings()
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 2, Segments: 8,
			SegmentSize: 128})
		w := newWriter(t, link, toFirst[[]byte](), writer.WithBufferTimeout(time.Hour))
		require.NoError(t, w.Emit(ctx, []byte("text")))
		if finished {
			require.NoError(t, w.Finish(ctx))
		}
		require.NoError(t, w.Close()) // unmaps
		require.Equal(t, before, memseg.LiveMappings())
		for name, call := range map[string]func() error{
			"Emit":           func() error { return w.Emit(ctx, []byte("x")) },
			"EmitTo":         func() error { return w.EmitTo(ctx, nil, 1) },
			"Broadcast":      func() error { return w.Broadcast(ctx, []byte("x")) },
			"BroadcastEvent": func() error { return w.BroadcastEvent(ctx, shuffle.CustomEvent{}) },
			"Flush":          w.Flush,
			"Finish":         func() error { return w.Finish(ctx) },
			"Fail":           func() error { return w.Fail(ctx, errors.New("cause")) },
			"Close":          w.Close,
		} {
			require.ErrorIs(t, call(), shuffle.ErrClosed, name)
		}
		require.True(t, w.IsAvailable(), "a write need not wait to fail")
		require.EqualValues(t, 1, link.Host.Closed)
	}
}

func TestFailTellsTheCauseBehindTheRecords(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8, SegmentSize: 128})
		w := newWriter(t, link, writer.Forward[[]byte](), writer.WithBufferTimeout(time.Hour))
		view := link.View(0)
		cause := errors.New("disk full")
		require.NoError(t, w.Emit(context.Background(), []byte("text")))
		require.NoError(t, w.Fail(context.Background(), cause))
		require.Equal(t, "disk full", link.Host.Cause)
		require.Equal(t, framed([]byte("text")), take(t, view))
		for _, size := range []int{200, 16} { // the second would fit the open buffer
			err := w.Emit(context.Background(), framedRecord(size))
			require.ErrorIs(t, err, shuffle.ErrPartitionFailed)
			require.ErrorIs(t, err, cause)
		}
	})
}

func TestWriterThatWasToldOfTheEndTakesNoRecordIntoAnotherOpenBuffer(t *testing.T) {
	lost := errors.New("fenced")
	for name, end := range map[string]func(w *writer.RecordWriter[[]byte], p *partition.ResultPartition) error{
		"a record is cut": func(w *writer.RecordWriter[[]byte], _ *partition.ResultPartition) error {
			return w.EmitTo(linktest.Impatient(), make([]byte, 2000), 0)
		},
		"a new buffer is needed": func(w *writer.RecordWriter[[]byte], p *partition.ResultPartition) error {
			p.EndedByHost(lost)
			return w.EmitTo(context.Background(), framedRecord(120), 0)
		},
		"an event": func(w *writer.RecordWriter[[]byte], p *partition.ResultPartition) error {
			p.EndedByHost(lost)
			return w.BroadcastEvent(context.Background(), shuffle.CustomEvent{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 4,
				SegmentSize: 128})
			w := newWriter(t, link, writer.Rebalance[[]byte](), writer.WithBufferTimeout(time.Hour))
			require.NoError(t, w.EmitTo(context.Background(), framedRecord(16), 0))
			require.NoError(t, w.EmitTo(context.Background(), framedRecord(16), 1))
			told := end(w, link.Partition)
			require.Error(t, told)
			for subpartition := range 2 {
				require.EqualError(t, w.EmitTo(context.Background(), framedRecord(16), subpartition), told.Error())
				_, err := link.Partition.Reserve(context.Background(), subpartition, 8)
				require.EqualError(t, err, told.Error())
			}
			require.EqualError(t, w.Broadcast(context.Background(), framedRecord(16)), told.Error())
		})
	}
}

func TestRecordThatIsReservedWhenThePartitionEndsIsNotSent(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4, SegmentSize: 128})
	p := link.Partition
	_, err := p.Reserve(context.Background(), 0, 8)
	require.NoError(t, err)
	lost := errors.New("fenced")
	p.EndedByHost(lost)
	require.ErrorIs(t, p.Commit(), lost)
	require.ErrorIs(t, p.Commit(), shuffle.ErrInvalidArgument, "it is dropped")
	_, err = p.Reserve(context.Background(), 0, 8)
	require.ErrorIs(t, err, lost)
}

// The short way does not look at the partition for each record.
func TestEndOfThePartitionSurfacesWithinACommitStep(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4,
		SegmentSize: 4 * memseg.CommitStep})
	w := newWriter(t, link, writer.Forward[[]byte]())
	require.NoError(t, w.Emit(context.Background(), framedRecord(16)))
	link.Partition.EndedByHost(shuffle.ErrPartitionReleased)
	written := 0
	var err error
	for err == nil {
		err = w.Emit(context.Background(), framedRecord(16))
		written += 16
	}
	require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
	require.LessOrEqual(t, written, memseg.CommitStep)
}

func TestCounters(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64})
	w := newWriter(t, link, toFirst[[]byte]())
	words := memseg.NewPartitionWords(link.Region())
	ctx := context.Background()
	require.Equal(t, writer.Counters{}, w.Counters())
	require.NoError(t, w.Emit(ctx, framedRecord(10)))
	require.NoError(t, w.Emit(ctx, framedRecord(10)))
	require.LessOrEqual(t, w.Counters().Records, int64(2), "it may lag")
	require.Zero(t, w.Counters().Buffers, "as long as the buffer is open")
	require.NoError(t, w.Emit(ctx, framedRecord(44)))
	require.Equal(t, writer.Counters{Records: 3, Bytes: 64, Buffers: 1}, w.Counters())
	require.NoError(t, w.Broadcast(ctx, framedRecord(64)))
	w.AddIdle(time.Second)
	w.AddIdle(time.Second)
	require.Equal(t, writer.Counters{Records: 4, Bytes: 192, Buffers: 3, Idle: 2 * time.Second}, w.Counters())
	require.NoError(t, w.Flush())
	require.EqualValues(t, 4, words.Records.Load(), "operators see them")
	require.EqualValues(t, 2*time.Second, words.IdleNs.Load())
}

// Everything that other goroutines may call, beside a writer at full speed.
func TestFlushAndCountersBesideAWriter(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 2, Segments: 6, SegmentSize: 256})
	w := newWriter(t, link, writer.Rebalance[[]byte](), writer.WithBufferTimeout(time.Millisecond))
	gate := link.Gate(0, 1)
	const records = 20_000
	var others sync.WaitGroup
	stop := make(chan struct{})
	for range 2 {
		others.Go(func() {
			for last := int64(0); ; {
				select {
				case <-stop:
					return
				default:
				}
				if err := w.Flush(); err != nil {
					t.Errorf("flush: %v", err)
					return
				}
				w.AddIdle(1)
				w.IsAvailable()
				c := w.Counters()
				if c.Records < last || c.Records > records {
					t.Errorf("counted %d records after %d", c.Records, last)
				}
				last = c.Records
			}
		})
	}
	written := make(chan error)
	go func() {
		for n := range records {
			if err := w.Emit(context.Background(), framedRecord(4+n%50)); err != nil {
				written <- err
				return
			}
		}
		written <- w.Finish(context.Background())
	}()
	bytes, ends := 0, 0
	for ends < 2 {
		b, err := gate.Next(context.Background())
		require.NoError(t, err)
		if b.IsEvent() {
			ends++
		} else {
			bytes += b.Len()
		}
		require.NoError(t, b.Release())
	}
	require.NoError(t, <-written)
	close(stop)
	others.Wait()
	want := 0
	for n := range records {
		want += 4 + n%50
	}
	require.Equal(t, want, bytes)
	require.EqualValues(t, records, w.Counters().Records)
	require.EqualValues(t, want, w.Counters().Bytes)
}

func TestEmitBesideAReservationIsRefusedAndHarmsNothing(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 4, SegmentSize: 256})
		gate := link.Gate(0)
		w := newWriter(t, link, writer.Forward[[]byte]())
		ctx := context.Background()
		require.NoError(t, w.Emit(ctx, []byte("before")))

		reserved, err := link.Partition.Reserve(ctx, 0, 4)
		require.NoError(t, err)
		require.ErrorIs(t, w.Emit(ctx, []byte("beside")), shuffle.ErrInvalidArgument)
		copy(reserved, "held")
		require.NoError(t, link.Partition.Commit())
		require.NoError(t, w.Emit(ctx, []byte("after")))
		require.NoError(t, w.Finish(ctx))

		var got []string
		for rec, err := range reader.Records(ctx, gate, shuffle.Strings{}) {
			require.NoError(t, err)
			got = append(got, rec)
		}
		require.Equal(t, []string{"before", "held", "after"}, got)
		require.NoError(t, gate.Close())
	})
}
