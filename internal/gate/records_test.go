package gate_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// newPipe returns a writer and a gate over one subpartition that can hold bytes
// in segments of a size, so that nothing waits.
func newPipe[T any](t testing.TB, memory linktest.Memory, codec shuffle.Codec[T], segment,
	bytes int) (*writer.RecordWriter[T], *linktest.Gate, *linktest.Link) {
	t.Helper()
	link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: bytes/segment + 2,
		SegmentSize: segment})
	gate := linktest.NewGate(t, memory, 1)
	gate.Attach(0, link, 0)
	w, err := writer.New(link.Partition, codec, writer.Forward[T](), writer.WithBufferTimeout(writer.FlushNever))
	require.NoError(t, err)
	return w, gate, link
}

// collect returns the records of a gate, copied, and the error that ended them.
func collect(g *linktest.Gate) (records [][]byte, err error) {
	for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
		if err != nil {
			return records, err
		}
		records = append(records, bytes.Clone(rec))
	}
	return records, nil
}

func size(records [][]byte) int {
	n := 0
	for _, rec := range records {
		n += 4 + len(rec)
	}
	return n
}

func TestRecordsOfAnySizeInSegmentsOfAnySize(t *testing.T) {
	random := newRandom(t)
	for segment := 8; segment <= 127; segment++ {
		records := [][]byte{
			make([]byte, 8*segment), // spans eight segments at least
			{},                      // nothing, anywhere
			make([]byte, segment-4), // a segment exactly, if it begins one
		}
		for range 60 {
			rec := make([]byte, random.IntN(3*segment))
			for i := range rec {
				rec[i] = byte(random.Uint32())
			}
			records = append(records, rec)
		}
		w, g, _ := newPipe(t, linktest.Heap, shuffle.Bytes{}, segment, size(records))
		for _, rec := range records {
			require.NoError(t, w.Emit(context.Background(), rec))
		}
		require.NoError(t, w.Finish(context.Background()))
		got, err := collect(g)
		require.NoError(t, err)
		requireSame(t, records, got)
	}
}

// requireSame compares records, for which no bytes and nil are the same.
func requireSame(t testing.TB, want, got [][]byte) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		require.True(t, bytes.Equal(want[i], got[i]), "record %d: want %d bytes %.20x, got %d bytes %.20x", i,
			len(want[i]), want[i], len(got[i]), got[i])
	}
}

func TestSmallAndLargeRecordsWhileTheyAreWritten(t *testing.T) {
	for _, memory := range linktest.Memories {
		random := newRandom(t)
		var records [][]byte
		for i := range 99 {
			n := random.IntN(100)
			if i%3 == 0 {
				n = random.IntN(200_000) // up to six segments
			}
			records = append(records, bytes.Repeat([]byte{byte(i)}, n))
		}
		w, g, _ := newPipe(t, memory, shuffle.Bytes{}, 32<<10, 128<<10)
		written := make(chan error)
		go func() {
			for _, rec := range records {
				if err := w.Emit(context.Background(), rec); err != nil {
					written <- err
					return
				}
			}
			written <- w.Finish(context.Background())
		}()
		got, err := collect(g)
		require.NoError(t, err)
		require.NoError(t, <-written)
		requireSame(t, records, got)
		require.NoError(t, w.Close())
	}
}

// The stream is cut into buffers at any byte: within a length, between length
// and body, within a body, and behind it.
func TestLengthsAreSplitAnywhere(t *testing.T) {
	records := [][]byte{[]byte("first"), {}, []byte("third record"), {}, {}, []byte("x")}
	var stream []byte
	for _, rec := range records {
		stream = binary.BigEndian.AppendUint32(stream, uint32(len(rec)))
		stream = append(stream, rec...)
	}
	for first := range len(stream) {
		for second := first; second <= len(stream); second++ {
			_, g, link := newPipe(t, linktest.Heap, shuffle.Bytes{}, 64, 1000)
			for _, part := range [][]byte{stream[:first], stream[first:second], stream[second:]} {
				emitRaw(t, link, part)
			}
			finish(t, link)
			got, err := collect(g)
			require.NoError(t, err)
			requireSame(t, records, got)
		}
	}
}

// emitRaw puts bytes into a buffer of their own.
func emitRaw(t testing.TB, l *linktest.Link, content []byte) {
	t.Helper()
	require.NoError(t, l.Partition.EmitRecord(context.Background(), content, 0))
	// Broadcasting finishes the open unicast buffer, and is finished by the next.
	require.NoError(t, l.Partition.BroadcastRecord(context.Background(), nil))
}

func TestRecordsAreReadInPlace(t *testing.T) {
	w, g, link := newPipe(t, linktest.Heap, shuffle.Bytes{}, 64, 1000)
	require.NoError(t, w.Emit(context.Background(), []byte("in place")))
	require.NoError(t, w.Finish(context.Background()))
	memory := link.Region().Bytes()
	offset := link.Layout.SegmentOffset(0)
	for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
		require.NoError(t, err)
		require.Same(t, &memory[offset+4], &rec[0])
		require.Equal(t, len(rec), cap(rec), "a record does not reach into the next")
	}
}

func TestEventsArePassedOver(t *testing.T) {
	w, g, _ := newPipe(t, linktest.Heap, shuffle.Bytes{}, 64, 1000)
	ctx := context.Background()
	require.NoError(t, w.Emit(ctx, []byte("one")))
	require.NoError(t, w.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "checkpoint"}))
	require.NoError(t, w.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "urgent", Priority: true}))
	require.NoError(t, w.Emit(ctx, []byte("two")))
	require.NoError(t, w.Finish(ctx))
	got, err := collect(g)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("one"), []byte("two")}, got)
	got, err = collect(g)
	require.NoError(t, err)
	require.Empty(t, got, "the gate has ended")
}

func TestRecordsOfManyChannelsKeepTheirOrder(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 3)
	// Each channel is within a record whenever another one is read.
	for round := range byte(4) {
		for c, l := range links {
			content := bytes.Repeat([]byte{byte(c), round}, 16)
			stream := append(binary.BigEndian.AppendUint32(nil, 32), content...)
			require.NoError(t, l.Partition.EmitRecord(context.Background(), stream[:20], 0))
			require.NoError(t, l.Partition.BroadcastRecord(context.Background(), stream[20:]))
		}
	}
	for _, l := range links {
		finish(t, l)
	}
	got, err := collect(g)
	require.NoError(t, err)
	require.Len(t, got, 12)
	rounds := make([]byte, 3)
	for _, rec := range got {
		c := rec[0]
		require.Equal(t, bytes.Repeat([]byte{c, rounds[c]}, 16), rec)
		rounds[c]++
	}
}

// Breaking off a loop after any record, and ranging again, loses nothing and
// repeats nothing.
func TestRangingAgainGoesOnWithTheNextRecord(t *testing.T) {
	random := newRandom(t)
	for _, memory := range linktest.Memories {
		var records [][]byte
		for i := range 300 {
			records = append(records, bytes.Repeat([]byte{byte(i)}, random.IntN(60)))
		}
		w, g, _ := newPipe(t, memory, shuffle.Bytes{}, 50, size(records))
		for _, rec := range records {
			require.NoError(t, w.Emit(context.Background(), rec))
		}
		require.NoError(t, w.Finish(context.Background()))
		var got [][]byte
		for len(got) < len(records) {
			stop := 1 + random.IntN(4)
			for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
				require.NoError(t, err)
				got = append(got, bytes.Clone(rec))
				if stop--; stop == 0 {
					break
				}
			}
		}
		requireSame(t, records, got)
		rest, err := collect(g)
		require.NoError(t, err)
		require.Empty(t, rest)
	}
}

func TestWaitThatEndsAndRangingAgain(t *testing.T) {
	w, g, _ := newPipe(t, linktest.Heap, shuffle.Bytes{}, 16, 1000)
	ctx := context.Background()
	require.NoError(t, w.Emit(ctx, []byte("spans some buffers of sixteen bytes")))
	require.NoError(t, w.Flush())
	require.NoError(t, w.Emit(ctx, []byte("the second one does as well")))
	var got []string
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	for rec, err := range reader.Records(waiting, g.InputGate, shuffle.Strings{}) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		got = append(got, rec)
		cancel()
	}
	require.NoError(t, w.Finish(ctx))
	for rec, err := range reader.Records(ctx, g.InputGate, shuffle.Strings{}) {
		require.NoError(t, err)
		got = append(got, rec)
	}
	require.Equal(t, []string{"spans some buffers of sixteen bytes", "the second one does as well"}, got)
}

var errRefused = errors.New("refused")

// picky refuses the records that begin with an x.
type picky struct{ shuffle.Strings }

func (p picky) Decode(src []byte) (string, error) {
	if len(src) > 0 && src[0] == 'x' {
		return "", fmt.Errorf("record %q: %w", src, errRefused)
	}
	return p.Strings.Decode(src)
}

func TestErrorOfTheCodecEndsTheLoopAndCostsThatRecordOnly(t *testing.T) {
	for _, segment := range []int{8, 16, 64, 1000} {
		w, g, _ := newPipe(t, linktest.Heap, picky{}, segment, 1000)
		for _, rec := range []string{"one", "x: a record that spans", "two", "x", "x", "three"} {
			require.NoError(t, w.Emit(context.Background(), rec))
		}
		require.NoError(t, w.Finish(context.Background()))
		var got []string
		refused := 0
		for ended := false; !ended; {
			for rec, err := range reader.Records(context.Background(), g.InputGate, picky{}) {
				if err != nil {
					require.ErrorIs(t, err, errRefused)
					require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
					require.ErrorContains(t, err, "channel 0")
					require.Empty(t, rec)
					if ended = errors.Is(err, shuffle.ErrIncomplete); !ended {
						refused++
					}
					continue // the loop ends by itself
				}
				got = append(got, rec)
			}
		}
		require.Equal(t, []string{"one", "two", "three"}, got)
		require.Equal(t, 3, refused)
	}
}

func TestHostileLengthIsRefusedWithoutItsMemory(t *testing.T) {
	for _, row := range []struct {
		name   string
		length uint32
		cut    int // bytes of the length in the first buffer
	}{
		{"beyond the longest record", 1 << 31, 4},
		{"the largest length", 0xffffffff, 4},
		{"the largest length, split", 0xffffffff, 1},
		{"the largest length, split late", 0xffffffff, 3},
		{"beyond the longest record, split", 1 << 31, 2},
		{"the longest record that never comes", 1<<31 - 1, 4},
		{"the longest record that never comes, split", 1<<31 - 1, 2},
	} {
		t.Run(row.name, func(t *testing.T) {
			g, links := newGate(t, linktest.Heap, 2)
			stream := append(binary.BigEndian.AppendUint32(nil, row.length), "body"...)
			emitRaw(t, links[0], stream[:row.cut])
			emitRaw(t, links[0], stream[row.cut:])
			finish(t, links[0])
			emitRaw(t, links[1], append(binary.BigEndian.AppendUint32(nil, 4), "good"...))
			finish(t, links[1])

			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			var got []string
			corrupt := 0
			for range 10 { // bounded: the others are not held up by it
				for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
					if err != nil {
						require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
						require.ErrorContains(t, err, "channel 0")
						corrupt++
						continue
					}
					got = append(got, rec)
				}
			}
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20))
			require.Equal(t, 10, corrupt, "it never ends without an error")
			require.Equal(t, []string{"good"}, got)
			requireIncomplete(t, g, shuffle.ErrCorruptRecord)
		})
	}
}

func TestStreamThatEndsWithinARecordIsCorrupt(t *testing.T) {
	whole := append(binary.BigEndian.AppendUint32(nil, 5), "whole"...)
	for _, rest := range []string{"\x00", "\x00\x00\x00", "\x00\x00\x00\x05", "\x00\x00\x00\x05half"} {
		_, g, link := newPipe(t, linktest.Heap, shuffle.Bytes{}, 64, 1000)
		emitRaw(t, link, append(bytes.Clone(whole), rest...))
		finish(t, link)
		got, err := collect(g)
		require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
		require.ErrorContains(t, err, "ends within a record")
		require.Equal(t, [][]byte{[]byte("whole")}, got)
	}
}

// The end alone does not make a stream whole: its host hears what the gate has found.
func TestHostIsToldWhetherAStreamWasWhole(t *testing.T) {
	const record = "\x00\x00\x00\x05whole"
	for name, row := range map[string]struct {
		stream string // "" if the end is the first element
		end    func(g *linktest.Gate, l *linktest.Link) error
		whole  int32
	}{
		"finished":                 {record, finished, 1},
		"finished within a record": {record + "\x00\x00\x00\x05half", finished, 0},
		"an end that is none": {"", func(_ *linktest.Gate, l *linktest.Link) error {
			q := l.Queue(0)
			defer q.Advance(0, 1, nil)
			return q.PublishEvent(memseg.EndOfPartition, []byte{0, 0, 0, 3, 0, 0})
		}, 0},
		"failed": {record, func(g *linktest.Gate, l *linktest.Link) error {
			g.FailChannel(0, shuffle.ErrProducerLost)
			return l.Partition.FlushAll()
		}, 0},
		"closed before its end": {record, func(g *linktest.Gate, _ *linktest.Link) error { return g.Close() }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			_, g, link := newPipe(t, linktest.Heap, shuffle.Bytes{}, 64, 1000)
			if row.stream != "" {
				emitRaw(t, link, []byte(row.stream))
			}
			require.NoError(t, row.end(g, link))
			_, err := collect(g)
			require.Equal(t, row.whole == 1, err == nil, err)
			require.Equal(t, row.whole, g.Whole.Load())
			require.Equal(t, int32(1), g.Views.Load(), "and it hears so once")
		})
	}
}

func finished(_ *linktest.Gate, l *linktest.Link) error {
	return l.Partition.Finish(context.Background())
}

func TestProducerLostWithinARecordIsThatError(t *testing.T) {
	_, g, link := newPipe(t, linktest.Heap, shuffle.Bytes{}, 64, 1000)
	emitRaw(t, link, []byte("\x00\x00\x00\x05whole\x00\x00\x00\x05half"))
	require.NoError(t, link.Partition.Close())
	g.FailChannel(0, shuffle.ErrProducerLost)
	got, err := collect(g)
	require.ErrorIs(t, err, shuffle.ErrProducerLost)
	require.Equal(t, [][]byte{[]byte("whole")}, got)
}

// Records above any buffer are gathered in memory, which is not kept afterwards.
func TestRecordsOfMebibytes(t *testing.T) {
	w, g, _ := newPipe(t, linktest.Heap, shuffle.Bytes{}, 32<<10, 128<<10)
	records := [][]byte{make([]byte, 6<<20), []byte("small"), make([]byte, 5<<20+1)}
	for i := range records[0] {
		records[0][i] = byte(i * 31)
	}
	written := make(chan error)
	go func() {
		for _, rec := range records {
			if err := w.Emit(context.Background(), rec); err != nil {
				written <- err
				return
			}
		}
		written <- w.Finish(context.Background())
	}()
	got, err := collect(g)
	require.NoError(t, err)
	require.NoError(t, <-written)
	requireSame(t, records, got)
}

// Once everything has its size, a record costs no allocation on either side,
// whether it spans buffers or not.
func TestRecordsAllocateNothing(t *testing.T) {
	for _, size := range []int{0, 16, 100, 5000} {
		w, g, _ := newPipe(t, linktest.Mapped, shuffle.Bytes{}, 4096, 128<<10)
		next, stop := iter.Pull2(reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}))
		rec := bytes.Repeat([]byte{7}, size)
		const records = 20
		allocations := testing.AllocsPerRun(200, func() {
			for range records {
				if err := w.Emit(context.Background(), rec); err != nil {
					t.Errorf("emit: %v", err)
				}
			}
			if err := w.Flush(); err != nil {
				t.Errorf("flush: %v", err)
			}
			for range records {
				got, err, ok := next()
				if err != nil || !ok || len(got) != size {
					t.Errorf("record of %d bytes: %v", len(got), err)
				}
			}
		})
		stop()
		require.Zero(t, allocations, "records of %d bytes", size)
	}
}

// FuzzRecordStream reads arbitrary bytes in arbitrary pieces: the outcome is that
// of reading them in one piece, and never more memory than arrived.
func FuzzRecordStream(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x05hello\x00\x00\x00\x00\x00\x00\x00\x01!"), uint8(3))
	f.Add([]byte("\xff\xff\xff\xffxxxxxxxx"), uint8(2))
	f.Add([]byte("\x00\x00\x00\x05hel"), uint8(1))
	f.Fuzz(func(t *testing.T, stream []byte, piece uint8) {
		if len(stream) > 1<<12 {
			return
		}
		n := int(piece)%60 + 1
		_, g, link := newPipe(t, linktest.Heap, shuffle.Bytes{}, 64, 64*(2*len(stream)/n+4))
		for rest := stream; len(rest) > 0; {
			k := min(n, len(rest))
			emitRaw(t, link, rest[:k])
			rest = rest[k:]
		}
		finish(t, link)

		var want [][]byte
		rest := stream
		for len(rest) >= 4 && int(binary.BigEndian.Uint32(rest)) <= len(rest)-4 {
			end := 4 + int(binary.BigEndian.Uint32(rest))
			want = append(want, rest[4:end])
			rest = rest[end:]
		}
		got, err := collect(g)
		requireSame(t, want, got)
		if len(rest) == 0 {
			require.NoError(t, err)
		} else {
			require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
		}
	})
}
