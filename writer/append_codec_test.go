package writer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A picky codec does with each record what it is told to.
type picky struct {
	shuffle.Strings
	do func(dst []byte, rec string) ([]byte, error)
}

func (c *picky) Append(dst []byte, rec string) ([]byte, error) { return c.do(dst, rec) }

func appendText(dst []byte, rec string) ([]byte, error) { return append(dst, rec...), nil }

func newAppending(t testing.TB, link *linktest.Link, codec shuffle.AppendCodec[string],
	selector writer.ChannelSelector[string]) *writer.RecordWriter[string] {
	t.Helper()
	w, err := writer.NewAppending(link.Partition, codec, selector, writer.WithBufferTimeout(writer.FlushNever))
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.Close() })
	return w
}

// read returns the records of a subpartition.
func read(t testing.TB, link *linktest.Link, sub int) (records []string) {
	t.Helper()
	for rec, err := range reader.Records(context.Background(), link.Gate(sub), shuffle.Strings{}) {
		require.NoError(t, err)
		records = append(records, rec)
	}
	return records
}

func TestRecordsOfUnknownSizeAreWrittenAsOthersAre(t *testing.T) {
	linktest.OverMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 200, SegmentSize: 64})
		w := newAppending(t, link, &picky{do: appendText}, writer.Rebalance[string]())
		var want [2][]string
		for i := range 100 {
			rec := strings.Repeat(string(rune('0'+i)), i)
			if i%10 == 0 {
				require.NoError(t, w.Broadcast(context.Background(), rec))
				want[0], want[1] = append(want[0], rec), append(want[1], rec)
				continue
			}
			require.NoError(t, w.EmitTo(context.Background(), rec, i%2))
			want[i%2] = append(want[i%2], rec)
		}
		require.NoError(t, w.Finish(context.Background()))
		for sub := range want {
			require.Equal(t, want[sub], read(t, link, sub))
		}
	})
}

func TestJSONRecordsGoThroughAWriterAndALoop(t *testing.T) {
	type visit struct{ Page string }
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 8, SegmentSize: 64})
	w, err := writer.NewAppending(link.Partition, shuffle.JSON[visit]{}, writer.Forward[visit]())
	require.NoError(t, err)
	want := []visit{{"/"}, {strings.Repeat("long", 30)}, {""}}
	for _, v := range want {
		require.NoError(t, w.Emit(context.Background(), v))
	}
	require.NoError(t, w.Finish(context.Background()))
	var got []visit
	for v, err := range reader.Records(context.Background(), link.Gate(0), shuffle.JSON[visit]{}) {
		require.NoError(t, err)
		got = append(got, v)
	}
	require.Equal(t, want, got)
	require.NoError(t, w.Close())
}

func TestRecordThatItsCodecCannotAppendIsNotWrittenAndTheWriterGoesOn(t *testing.T) {
	mine := errors.New("mine")
	for name, emit := range map[string]func(w *writer.RecordWriter[string], rec string) error{
		"emit": func(w *writer.RecordWriter[string], rec string) error {
			return w.EmitTo(context.Background(), rec, 0)
		},
		"broadcast": func(w *writer.RecordWriter[string], rec string) error {
			return w.Broadcast(context.Background(), rec)
		},
	} {
		t.Run(name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 2, Segments: 40,
				SegmentSize: 64})
			var w *writer.RecordWriter[string]
			w = newAppending(t, link, &picky{do: func(dst []byte, rec string) ([]byte, error) {
				switch {
				case strings.HasPrefix(rec, "fail"):
					return append(dst, rec...), fmt.Errorf("%w, as if %w: %w", mine, shuffle.ErrFinished, io.EOF)
				case rec == "panic":
					panic(mine)
				case rec == "emit":
					return dst, w.EmitTo(context.Background(), "within", 0)
				}
				return appendText(dst, rec)
			}}, writer.Rebalance[string]())
			for _, rec := range []string{"a", strings.Repeat("b", 100)} {
				require.NoError(t, emit(w, rec))
				for _, wrong := range []string{"fail", "fail" + strings.Repeat("s", 200)} {
					err := emit(w, wrong)
					require.ErrorIs(t, err, mine)
					require.ErrorIs(t, err, shuffle.ErrCorruptRecord)
					require.NotErrorIs(t, err, shuffle.ErrFinished, "which is about another stream")
					require.NotErrorIs(t, err, io.EOF)
					require.ErrorContains(t, err, "type string")
				}
				require.PanicsWithValue(t, mine, func() { _ = emit(w, "panic") })
				require.ErrorContains(t, emit(w, "emit"), "another goroutine is emitting")
			}
			require.NoError(t, emit(w, "c"))
			require.NoError(t, w.Finish(context.Background()))
			require.Equal(t, []string{"a", strings.Repeat("b", 100), "c"}, read(t, link, 0))
			require.EqualValues(t, 3, w.Counters().Records)
		})
	}
}

// What a codec returns may be memory of its own, which nobody writes to.
func TestMemoryThatACodecReturnsIsLeftAlone(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 40, SegmentSize: 64})
	own := []byte("own memory, which is longer than others")
	w := newAppending(t, link, &picky{do: func(dst []byte, rec string) ([]byte, error) {
		if rec == "own" {
			return own, nil
		}
		return appendText(dst, rec)
	}}, writer.Forward[string]())
	for _, rec := range []string{"own", "x", "own", "y"} {
		require.NoError(t, w.Emit(context.Background(), rec))
	}
	require.NoError(t, w.Finish(context.Background()))
	require.Equal(t, []string{string(own), "x", string(own), "y"}, read(t, link, 0))
	require.Equal(t, "own memory, which is longer than others", string(own))
}

func TestRecordsOfUnknownSizeTakeNoMemoryEach(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 400, SegmentSize: 1024})
	w := newAppending(t, link, &picky{do: appendText}, writer.Forward[string]())
	rec := strings.Repeat("x", 300)
	require.NoError(t, w.Emit(context.Background(), rec))
	require.Zero(t, testing.AllocsPerRun(100, func() { require.NoError(t, w.Emit(context.Background(), rec)) }))
}
