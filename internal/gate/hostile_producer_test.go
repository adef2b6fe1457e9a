package gate_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
)

// flood has the producer of a link publish without end until stop is called.
func flood(t testing.TB, link *linktest.Link, g *linktest.Gate,
	publish func(q *linktest.Queue, released uint64)) (stop func()) {
	q := link.Queue(0)
	for i := range link.Layout.Segments {
		finishedEmpty := int32(math.MinInt32)
		link.Region().Word32(int(link.Layout.MarkerOffset(i))).Store(uint32(finishedEmpty))
	}
	words := g.Words(0)
	var stopped atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for !stopped.Load() {
			_, _ = q.AcceptReleased(words.Released.Load(), false, func(uint64) {})
			_ = q.AcceptPriorityReleased(words.PriorityReleased.Load())
			publish(q, words.Released.Load())
			g.Ring(0)
		}
	}()
	return func() { stopped.Store(true); <-done }
}

var floods = map[string]func(q *linktest.Queue, released uint64){
	"empty buffers": func(q *linktest.Queue, _ uint64) {
		if q.PublishBuffer(memseg.Descriptor{Type: memseg.DataBuffer, Segment: int(q.Published() % 8)}) == nil {
			q.Advance(0, 1, nil)
		}
	},
	"priority events": func(q *linktest.Queue, _ uint64) {
		content, _ := shuffle.EncodeEvent(priorityEvent)
		_ = q.PublishPriorityEvent(memseg.PrioritizedEventBuffer, content)
	},
	"events": func(q *linktest.Queue, _ uint64) {
		content, _ := shuffle.EncodeEvent(shuffle.CustomEvent{Name: "again"})
		if q.PublishEvent(memseg.EventBuffer, content) == nil {
			q.Advance(0, 1, nil)
		}
	},
	"barriers": func(q *linktest.Queue, _ uint64) {
		content, _ := shuffle.EncodeEvent(shuffle.CustomEvent{Name: "again"})
		if q.PublishEvent(memseg.AlignedCheckpointBarrier, content) == nil {
			q.Advance(0, 1, nil)
		}
	},
}

// Whatever one producer publishes without end, the others are read, contexts are
// honoured and the gate can be closed.
func TestEndlessNothingOfOneProducerHoldsUpNobody(t *testing.T) {
	for name, publish := range floods {
		t.Run(name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 8,
				SegmentSize: 16})
			g := linktest.NewGate(t, linktest.Mapped, 2)
			g.Attach(0, link, 0)
			other := newLink(t, linktest.Mapped)
			g.Attach(1, other, 0)
			defer flood(t, link, g, publish)()

			records := numbered(20, 16)
			emitStrings(t, other, records)
			var got []string
			for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
				require.NoError(t, err)
				if got = append(got, rec); len(got) == len(records) {
					break
				}
			}
			require.Equal(t, records, got)

			ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
			defer cancel()
			for _, err := range reader.Records(ctx, g.InputGate, shuffle.Strings{}) {
				require.ErrorIs(t, err, context.DeadlineExceeded)
			}

			ended := make(chan error)
			go func() {
				var err error
				for _, err = range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
				}
				ended <- err
			}()
			require.NoError(t, g.Close())
			require.ErrorIs(t, <-ended, shuffle.ErrClosed)
		})
	}
}

func TestPriorityEventsOfOneChannelLeaveTheOthersTheirTurn(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 8, SegmentSize: 16})
	g := linktest.NewGate(t, linktest.Heap, 2)
	g.Attach(0, link, 0)
	other := newLink(t, linktest.Heap)
	g.Attach(1, other, 0)
	q := link.Queue(0)
	publish := func() {
		require.NoError(t, q.AcceptPriorityReleased(g.Words(0).PriorityReleased.Load()))
		floods["priority events"](q, 0)
	}
	publish()
	emit(t, other, segmentSize)
	for events := 0; next(t, g).channel == 0; events++ {
		require.Less(t, events, 20)
		publish()
	}
}

// An event is copied before it is looked at, and its slot given back.
func TestEventsThatAreKeptHoldNothing(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 1)
		var kept []shuffle.BufferOrEvent
		for i := range 200 {
			sendEvent(t, links[0], shuffle.CustomEvent{Name: fmt.Sprint(i), Priority: i%2 == 0})
			b, err := g.Next(context.Background())
			require.NoError(t, err)
			kept = append(kept, b)
			links[0].Partition.Reclaim()
		}
		require.NoError(t, g.Close())
		for i, b := range kept {
			e, err := b.Event()
			require.NoError(t, err)
			require.Equal(t, shuffle.CustomEvent{Name: fmt.Sprint(i), Priority: i%2 == 0}, clearBody(e))
			require.NoError(t, b.Release())
		}
	})
}

func clearBody(e shuffle.Event) shuffle.Event {
	c := e.(shuffle.CustomEvent)
	c.Body = nil
	return c
}

func TestEventThatCannotBeReadEndsItsChannel(t *testing.T) {
	for name, row := range map[string]struct {
		typ     memseg.DataType
		content []byte
	}{
		"cut":                    {memseg.EventBuffer, []byte{0, 0}},
		"a code of nobody":       {memseg.EventBuffer, []byte{0, 0, 0, 99}},
		"an end that is no end":  {memseg.EventBuffer, []byte{0, 0, 0, 0}},
		"no end, queued as one":  {memseg.EndOfPartition, []byte{0, 0, 0, 3, 0, 0}},
		"a priority event, cut":  {memseg.PrioritizedEventBuffer, []byte{0}},
		"a name beyond its body": {memseg.AlignedCheckpointBarrier, []byte{0, 0, 0, 3, 0, 9, 'x'}},
	} {
		for _, byRecords := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by records %t", name, byRecords), func(t *testing.T) {
				g, links := newGate(t, linktest.Heap, 1)
				q := links[0].Queue(0)
				if row.typ.HasPriority() {
					require.NoError(t, q.PublishPriorityEvent(row.typ, row.content))
				} else {
					require.NoError(t, q.PublishEvent(row.typ, row.content))
					q.Advance(0, 1, nil)
				}
				var err error
				if byRecords {
					_, err = collect(g)
				} else {
					_, err = g.Next(context.Background())
				}
				require.ErrorIs(t, err, shuffle.ErrProtocol)
				require.NotErrorIs(t, err, shuffle.ErrIncomplete)
				requireIncomplete(t, g, shuffle.ErrProtocol)
			})
		}
	}
}

// A user that keeps the first buffer for ever and waits for more is told, rather than
// that both sides wait.
func TestUserThatKeepsWhatTheProducerWaitsForIsTold(t *testing.T) {
	for name, read := range map[string]func(g *linktest.Gate) (shuffle.BufferOrEvent, error){
		"Next": func(g *linktest.Gate) (shuffle.BufferOrEvent, error) { return g.Next(context.Background()) },
		"TryNext": func(g *linktest.Gate) (b shuffle.BufferOrEvent, err error) {
			for ok := false; !ok && err == nil; time.Sleep(tick) {
				b, ok, err = g.TryNext()
			}
			return b, err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 4, Segments: 16,
				SegmentSize: segmentSize})
			g := linktest.NewGate(t, linktest.Mapped, 1)
			g.Attach(0, link, 0)
			const buffers = 40
			written := make(chan error)
			go func() {
				var err error
				for range buffers {
					if err == nil {
						err = link.Partition.EmitRecord(context.Background(), make([]byte, segmentSize), 0)
					}
				}
				written <- err
			}()
			var kept shuffle.BufferOrEvent
			got := 0
			for got < buffers {
				b, err := read(g)
				if err != nil {
					require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
					require.ErrorContains(t, err, "channel 0: ")
					require.ErrorContains(t, err, "1 are kept, the oldest is element 0")
					require.Equal(t, 16, got, "the whole pool")
					_, err = read(g)
					require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld, "it stays so")
					require.NoError(t, kept.Release())
					continue
				}
				if got++; got == 1 {
					kept = b
					continue
				}
				require.NoError(t, b.Release())
			}
			require.NoError(t, <-written)
			require.True(t, kept.IsReleased())
		})
	}
}

// A gate that sleeps is not rung by a producer that comes to wait for what is kept.
func TestSleepingGateFindsThatItsProducerWaitsForWhatIsKept(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 16,
		SegmentSize: segmentSize, Quota: 1})
	g := linktest.NewGate(t, linktest.Mapped, 1)
	g.Attach(0, link, 0)
	emit := func() error {
		return link.Partition.EmitRecord(context.Background(), make([]byte, segmentSize), 0)
	}
	require.NoError(t, emit())
	kept, err := g.Next(context.Background())
	require.NoError(t, err)
	told, written := make(chan error, 1), make(chan error, 1)
	g.SleepLong()
	go func() {
		_, err := g.Next(context.Background())
		told <- err
	}()
	require.Eventually(t, g.IsParked, wait, tick)
	go func() { written <- emit() }()
	select {
	case err = <-told:
	case <-time.After(wait / 2): // of its sleep
		t.Fatal("it sleeps on")
	}
	require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
	require.ErrorContains(t, err, "MaxBuffersPerChannel")
	require.NoError(t, kept.Release())
	require.NoError(t, <-written)
}

func TestLieAboutWhatAProducerWaitsForHarmsItsOwnChannelOnly(t *testing.T) {
	g := linktest.NewGate(t, linktest.Mapped, 2)
	var links []*linktest.Link
	var kept []shuffle.BufferOrEvent
	for channel := range 2 {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 16,
			SegmentSize: segmentSize})
		g.Attach(channel, link, 0)
		require.NoError(t, link.Partition.EmitRecord(context.Background(), make([]byte, segmentSize), 0))
		b, err := g.Next(context.Background())
		require.NoError(t, err)
		kept, links = append(kept, b), append(links, link)
	}
	hostile, honest := links[0], links[1]
	const queue = 7168 // docs/layout.md
	hostile.Region().Word(queue + 128).Store(hostile.Layout.FirstOrdinal + 16)
	hostile.Region().Word(queue + 136).Store(77<<32 | 1)
	memseg.NewPartitionWords(hostile.Region()).Parked.Store(1)
	_, err := g.Next(context.Background())
	var told *shuffle.ChannelError
	require.ErrorAs(t, err, &told)
	require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
	require.Equal(t, 0, told.Channel)
	require.False(t, told.Ended)
	for range 50 {
		require.NoError(t, honest.Partition.EmitRecord(context.Background(), make([]byte, segmentSize), 0))
		for got := false; !got; {
			b, err := g.Next(context.Background())
			if err != nil {
				require.ErrorAs(t, err, &told)
				require.Equal(t, 0, told.Channel)
				continue
			}
			require.Equal(t, 1, b.Channel)
			got = true
			require.NoError(t, kept[1].Release())
			kept[1] = b
		}
	}
	for _, b := range kept {
		require.NoError(t, b.Release())
	}
}

// The memory of a record is that of what has arrived, and it goes with its channel.
func TestRecordThatNeverEndsTakesWhatHasArrivedAndLeavesNothing(t *testing.T) {
	const segment, arrived = 1 << 20, 48 << 20
	link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 4,
		SegmentSize: segment})
	g := linktest.NewGate(t, linktest.Mapped, 1)
	g.Attach(0, link, 0)
	heap := func() int {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int(stats.HeapAlloc)
	}
	before := heap()
	go func() {
		first := make([]byte, segment)
		copy(first, "\x7f\xff\xff\xff")
		for sent := 0; sent < arrived; sent += segment {
			_ = link.Partition.EmitRecord(context.Background(), first, 0)
		}
		g.FailChannel(0, shuffle.ErrProducerLost)
	}()
	gathered := make(chan int)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		defer cancel()
		for _, err := range reader.Records(ctx, g.InputGate, shuffle.Bytes{}) {
			if err != nil && !errors.Is(err, shuffle.ErrProducerLost) {
				t.Errorf("read: %v", err)
			}
		}
		gathered <- heap()
	}()
	most := 0
	for after := -1; after < 0; {
		select {
		case after = <-gathered:
			require.Less(t, after-before, 8<<20, "let go")
		default:
			most = max(most, heap()-before)
		}
	}
	require.Less(t, most, arrived+arrived/4)
	requireIncomplete(t, g, shuffle.ErrProducerLost)
}

// Without waiting, one hears of a lost daemon as well.
func TestTryNextReportsTheLostDaemonOnceNothingComes(t *testing.T) {
	t.Parallel()
	g, links := newGate(t, linktest.Heap, 1)
	g.SetDaemonLost(shuffle.ErrDaemonLost)
	for range 2 {
		emit(t, links[0], segmentSize)
		b, ok, err := g.TryNext()
		require.NoError(t, err)
		require.True(t, ok)
		require.NoError(t, b.Release())
		require.Eventually(t, func() bool { _, _, err = g.TryNext(); return err != nil }, wait, tick)
		require.ErrorIs(t, err, shuffle.ErrDaemonLost)
	}
}

func TestRecordsGoOnBehindABarrier(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	sendEvent(t, links[0], alignedBarrier)
	emitStrings(t, links[0], []string{"behind"})
	got, err := collect(g)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("behind")}, got)
}

func TestElementsStopAtABarrierUntilTheirBodyResumesTheChannel(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 2)
	sendEvent(t, links[0], alignedBarrier)
	emitStrings(t, links[0], []string{"behind"})
	emitStrings(t, links[1], []string{"beside"})
	var got []string
	for e, err := range reader.Elements(context.Background(), g.InputGate, shuffle.Strings{}) {
		require.NoError(t, err)
		switch e.Event.(type) {
		case nil:
			got = append(got, e.Record)
		case shuffle.EndOfPartition:
			if e.Channel == 1 {
				require.NoError(t, g.ResumeConsumption(0))
			}
		default:
			got = append(got, "barrier")
		}
	}
	require.Equal(t, []string{"barrier", "beside", "behind"}, got)
}
