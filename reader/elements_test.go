package reader_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
)

const segmentSize = 64

func newLink(t testing.TB, memory linktest.Memory) *linktest.Link {
	t.Helper()
	return linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 16, SegmentSize: segmentSize})
}

// newGate returns a gate over the only subpartitions of links.
func newGate(t testing.TB, memory linktest.Memory, copies bool, links ...*linktest.Link) *linktest.Gate {
	t.Helper()
	g := linktest.NewGate(t, memory, len(links), func(s *shuffle.GateSpec) { s.CopyRecords = copies })
	for channel, link := range links {
		g.Attach(channel, link, 0)
	}
	return g
}

func emit(t testing.TB, link *linktest.Link, rec string) {
	t.Helper()
	framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(rec))), rec...)
	require.NoError(t, link.Partition.EmitRecord(context.Background(), framed, 0))
}

func finish(t testing.TB, link *linktest.Link) {
	t.Helper()
	require.NoError(t, link.Partition.Finish(context.Background()))
}

// show is an element as tests compare it.
func show(e reader.Element[[]byte]) string {
	switch event := e.Event.(type) {
	case nil:
		return string(e.Record)
	case shuffle.CustomEvent:
		return event.Name
	default:
		return fmt.Sprintf("%T", event)
	}
}

func TestElementsTellTheirChannelAndEventsStandAmongTheRecords(t *testing.T) {
	const end = "shuffle.EndOfPartition"
	spanning := strings.Repeat("spans", 40)
	linktest.OverMemories(t, func(t *testing.T, memory linktest.Memory) {
		links := []*linktest.Link{newLink(t, memory), newLink(t, memory)}
		g := newGate(t, memory, false, links...)
		want := [][]string{
			{"a", "<first>", "b", spanning, "<second>", "<third>", "c", end},
			{"<begins>", spanning, "d", end},
		}
		for channel, elements := range want {
			for _, e := range elements {
				switch {
				case e == end:
					finish(t, links[channel])
				case e[0] == '<':
					require.NoError(t, links[channel].Partition.BroadcastEvent(context.Background(),
						shuffle.CustomEvent{Name: e}))
				default:
					emit(t, links[channel], e)
				}
			}
		}
		got := make([][]string, len(links))
		for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
			require.NoError(t, err)
			got[e.Channel] = append(got[e.Channel], show(e))
		}
		require.Equal(t, want, got)
		require.EqualValues(t, 2, g.Whole.Load())
	})
}

func TestLoopThatIsLeftAtAnEventGoesOnBehindIt(t *testing.T) {
	link := newLink(t, linktest.Heap)
	g := newGate(t, linktest.Heap, false, link)
	emit(t, link, "a")
	require.NoError(t, link.Partition.BroadcastEvent(context.Background(), shuffle.CustomEvent{Name: "event"}))
	emit(t, link, "b")
	emit(t, link, "c")
	finish(t, link)
	var got []string
	for range 5 {
		for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
			require.NoError(t, err)
			got = append(got, show(e))
			break
		}
	}
	require.Equal(t, []string{"a", "event", "b", "c", "shuffle.EndOfPartition"}, got)
}

func TestErrorOfAChannelComesWithoutAnElement(t *testing.T) {
	link := newLink(t, linktest.Heap)
	g := newGate(t, linktest.Heap, false, link)
	emit(t, link, "a")
	require.NoError(t, link.Partition.FlushAll())
	g.FailChannel(0, shuffle.ErrProducerLost)
	next, stop := iter.Pull2(reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}))
	defer stop()
	e, err, _ := next()
	require.NoError(t, err)
	require.Equal(t, "a", show(e))
	e, err, _ = next()
	require.ErrorIs(t, err, shuffle.ErrProducerLost)
	require.Zero(t, e)
	_, _, goesOn := next()
	require.False(t, goesOn)
}

// A filled record takes a segment.
func filled(c byte) string { return strings.Repeat(string(c), segmentSize-4) }

func TestRetainedRecordsStayAndCountAsBuffersThatAreKept(t *testing.T) {
	linktest.OverMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := newLink(t, memory)
		g := newGate(t, memory, false, link)
		for i := range 12 {
			emit(t, link, filled('a'+byte(i)))
		}
		finish(t, link)
		var kept [][]byte
		var releases []func()
		var last error
		for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
			if last = err; err != nil {
				break
			}
			release, err := e.Retain()
			require.NoError(t, err)
			kept, releases = append(kept, e.Record), append(releases, release)
		}
		require.ErrorIs(t, last, shuffle.ErrTooManyBuffersHeld)
		require.Len(t, kept, 9, "half of the pool, and the one that is read")
		for i, rec := range kept {
			require.Equal(t, filled('a'+byte(i)), string(rec))
		}
		for range 2 {
			releases[0]()
		}
		link.Partition.Reclaim()
		require.Equal(t, 11, link.Pool.Used(), "the second release of one is none of another")
		for _, release := range releases[1:8] {
			release()
		}
		rest := 0
		for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
			require.NoError(t, err)
			if e.Event == nil {
				require.Equal(t, filled('a'+byte(9+rest)), string(e.Record))
				rest++
			}
		}
		require.Equal(t, 3, rest)
		require.NoError(t, g.Close())
		require.Equal(t, filled('i'), string(kept[8]), "still mapped")
		require.Zero(t, g.Views.Load())
		releases[8]()
		require.EqualValues(t, 1, g.Views.Load(), "the last of its buffers was given back")
	})
}

func TestRecordsOfOneBufferAreKeptWithIt(t *testing.T) {
	link := newLink(t, linktest.Mapped)
	g := newGate(t, linktest.Mapped, false, link)
	for i := range 12 {
		emit(t, link, strings.Repeat(string('a'+byte(i)), 28))
	}
	finish(t, link)
	var kept [][]byte
	var releases []func()
	for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
		require.NoError(t, err, "six buffers are kept, not twelve")
		if e.Event == nil {
			release, err := e.Retain()
			require.NoError(t, err)
			kept, releases = append(kept, e.Record), append(releases, release)
		}
	}
	link.Partition.Reclaim()
	require.Equal(t, 6, link.Pool.Used())
	for i := 0; i < len(kept); i += 2 {
		releases[i]()
		releases[i]()
	}
	link.Partition.Reclaim()
	require.Equal(t, 6, link.Pool.Used(), "a release that is called again takes nothing from the other record")
	for i := 1; i < len(kept); i += 2 {
		require.Equal(t, strings.Repeat(string('a'+byte(i)), 28), string(kept[i]))
		releases[i]()
	}
	link.Partition.Reclaim()
	require.Zero(t, link.Pool.Used())
}

func TestRetainedRecordsInOwnMemoryCountForNothing(t *testing.T) {
	for name, copies := range map[string]bool{"records that span buffers": false, "a gate that copies records": true} {
		t.Run(name, func(t *testing.T) {
			link := newLink(t, linktest.Mapped)
			g := newGate(t, linktest.Mapped, copies, link)
			written := make(chan error, 1)
			go func() {
				for i := range 40 {
					rec := strings.Repeat(string('A'+byte(i)), segmentSize-4)
					if !copies {
						rec += rec
					}
					framed := append(binary.BigEndian.AppendUint32(nil, uint32(len(rec))), rec...)
					if err := link.Partition.EmitRecord(context.Background(), framed, 0); err != nil {
						written <- err
						return
					}
				}
				written <- link.Partition.Finish(context.Background())
			}()
			var kept [][]byte
			for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
				require.NoError(t, err)
				if e.Event == nil && (copies || len(e.Record) > segmentSize) {
					_, err := e.Retain() // never released
					require.NoError(t, err)
					kept = append(kept, e.Record)
				}
			}
			require.NoError(t, <-written)
			require.Len(t, kept, 40)
			for i, rec := range kept {
				require.Equal(t, strings.Repeat(string('A'+byte(i)), len(rec)), string(rec))
			}
			link.Partition.Reclaim()
			require.Zero(t, link.Pool.Used())
		})
	}
}

func TestElementIsRetainedInItsOwnStepOnly(t *testing.T) {
	for _, size := range []int{8, segmentSize - 4, 3 * segmentSize} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			link := newLink(t, linktest.Heap)
			g := newGate(t, linktest.Heap, false, link)
			for range 3 {
				emit(t, link, strings.Repeat("x", size))
			}
			require.NoError(t, link.Partition.FlushAll())
			var before reader.Element[[]byte]
			refused := func() {
				t.Helper()
				_, err := before.Retain()
				require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
			}
			refused() // of no loop
			steps := 0
			require.Panics(t, func() {
				for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
					require.NoError(t, err)
					refused()
					if before = e; steps == 1 {
						panic("in the body")
					}
					steps++
				}
			})
			refused()
			for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
				require.NoError(t, err)
				refused()
				before = e
				break
			}
			refused()
			finish(t, link)
			for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Bytes{}) {
				require.NoError(t, err)
				refused()
				release, err := e.Retain()
				require.NoError(t, err, "an event")
				release()
			}
		})
	}
}
