package gate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/gate"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
)

// nextAndTryNext returns what both say.
func nextAndTryNext(t testing.TB, g *linktest.Gate) (errs []error) {
	t.Helper()
	b, err := g.Next(context.Background())
	require.Nil(t, b.Buffer)
	_, ok, tryErr := g.TryNext()
	require.False(t, ok)
	return []error{err, tryErr}
}

func TestNextDoesNotOvertakeRecordsThatALoopHasLeft(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 1)
		records := numbered(6, 16)
		emitStrings(t, links[0], records)
		var got []string
		for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
			require.NoError(t, err)
			got = append(got, rec)
			break
		}
		for _, err := range nextAndTryNext(t, g) {
			require.ErrorIs(t, err, shuffle.ErrRecordsLeft)
			require.ErrorContains(t, err, "channel 0: ")
			require.ErrorContains(t, err, "range over Records again")
		}
		for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
			require.NoError(t, err)
			got = append(got, rec)
		}
		require.Equal(t, records, got)
		_, err := g.Next(context.Background())
		require.Equal(t, io.EOF, err)
	})
}

func TestNextDoesNotGoOnWithinARecordThatALoopHasBegun(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 2)
	emitRaw(t, links[0], []byte("\x00\x00\x00\x08half"))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	emitRaw(t, links[1], []byte("\x00\x00\x00\x01x"))
	for rec, err := range reader.Records(ctx, g.InputGate, shuffle.Strings{}) {
		if err != nil {
			require.ErrorIs(t, err, context.Canceled)
			break
		}
		require.Equal(t, "x", rec)
		cancel()
	}
	emitRaw(t, links[0], []byte("half"))
	finish(t, links[0])
	emitRaw(t, links[1], []byte("\x00\x00\x00\x01y"))
	var others []element
	for range 6 { // the other channel has its turn
		b, ok, err := g.TryNext()
		if ok {
			others = append(others, released(t, b))
		} else if err != nil {
			require.ErrorIs(t, err, shuffle.ErrRecordsLeft)
			require.ErrorContains(t, err, "channel 0: ")
		}
	}
	require.Equal(t, []element{buffer(1, 5)}, others)
	finish(t, links[1])
	records, err := collect(g)
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("halfhalf")}, records)
}

// Next hands out bytes and does not know where a record begins: a loop may go on
// where one does.
func TestRecordsDoNotBeginWithinARecordThatNextHasBegun(t *testing.T) {
	for _, row := range []struct {
		size    int
		refused bool
	}{{16 - 4, false}, {segmentSize - 4, false}, {segmentSize, true}, {segmentSize + 10, true}} {
		g, links := newGate(t, linktest.Heap, 1)
		records := numbered(6, row.size)
		emitStrings(t, links[0], records)
		b, err := g.Next(context.Background())
		require.NoError(t, err)
		first := b.Len() / (row.size + 4)
		require.NoError(t, b.Release())
		got, err := collect(g)
		if !row.refused {
			require.NoError(t, err)
			require.Len(t, got, len(records)-first)
			require.Equal(t, records[first], string(got[0]))
			continue
		}
		require.ErrorIs(t, err, shuffle.ErrRecordsLeft)
		require.ErrorContains(t, err, "go on with Next")
		require.Empty(t, got)
		b, err = g.Next(context.Background())
		require.NoError(t, err, "nothing was taken")
		require.NoError(t, b.Release())
	}
}

// A loop that found nothing has not come to a record either.
func TestRecordsDoNotBeginWithinARecordThoughALoopHasWaitedForItsRest(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 2,
			SegmentSize: segmentSize})
		g := linktest.NewGate(t, memory, 1)
		g.Attach(0, link, 0)
		emitted := make(chan error)
		go func() {
			emitted <- link.Partition.EmitRecord(context.Background(), append([]byte{0, 0, 0, 3*segmentSize - 4},
				make([]byte, 3*segmentSize-4)...), 0)
		}()
		var kept []shuffle.BufferOrEvent
		for range 2 {
			b, err := g.Next(context.Background())
			require.NoError(t, err)
			kept = append(kept, b)
		}
		g.SetDaemonLost(shuffle.ErrDaemonLost)
		for err := error(nil); !errors.Is(err, shuffle.ErrDaemonLost); { // it has looked whether there is more
			var got [][]byte
			got, err = collect(g)
			require.Empty(t, got)
			require.Error(t, err)
		}
		for _, b := range kept {
			require.NoError(t, b.Release())
		}
		require.NoError(t, <-emitted)
		got, err := collect(g)
		require.ErrorIs(t, err, shuffle.ErrRecordsLeft)
		require.Empty(t, got)
		require.Equal(t, buffer(0, segmentSize), next(t, g))
		finish(t, link)
		got, err = collect(g)
		require.NoError(t, err)
		require.Empty(t, got)
	})
}

func TestOnlyOneReadsAGateAtATime(t *testing.T) {
	t.Run("from within a loop", func(t *testing.T) {
		g, links := newGate(t, linktest.Heap, 1)
		records := numbered(4, 16)
		emitStrings(t, links[0], records)
		var got []string
		for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
			require.NoError(t, err)
			got = append(got, rec)
			for _, err := range nextAndTryNext(t, g) {
				require.ErrorIs(t, err, shuffle.ErrConcurrentUse)
			}
			inner, err := collect(g)
			require.ErrorIs(t, err, shuffle.ErrConcurrentUse)
			require.Empty(t, inner)
		}
		require.Equal(t, records, got)
	})
	t.Run("beside a wait", func(t *testing.T) {
		g, links := newGate(t, linktest.Heap, 1)
		waiting := make(chan element)
		go func() { waiting <- next(t, g) }()
		require.Eventually(t, g.IsParked, wait, tick)
		for _, err := range nextAndTryNext(t, g) {
			require.ErrorIs(t, err, shuffle.ErrConcurrentUse)
		}
		require.ErrorIs(t, g.ResumeConsumption(0), shuffle.ErrConcurrentUse)
		_, err := collect(g)
		require.ErrorIs(t, err, shuffle.ErrConcurrentUse)
		emit(t, links[0], segmentSize)
		require.Equal(t, buffer(0, segmentSize), <-waiting)
	})
	t.Run("many at once", func(t *testing.T) {
		g, links := newGate(t, linktest.Heap, 1)
		go func() {
			for i := range 200 {
				_ = links[0].Partition.EmitRecord(context.Background(),
					append([]byte{0, 0, 0, 16}, numbered(i+1, 16)[i]...), 0)
			}
			_ = links[0].Partition.Finish(context.Background())
		}()
		counts := make(chan int)
		for range 3 {
			go func() {
				n := 0
				for {
					var err error
					for _, err = range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
						if err == nil {
							n++
						}
					}
					if err == nil {
						break
					}
					if !errors.Is(err, shuffle.ErrConcurrentUse) {
						t.Errorf("read: %v", err)
						break
					}
				}
				counts <- n
			}()
		}
		require.Equal(t, 200, <-counts+<-counts+<-counts)
	})
}

func TestCloseFromWithinALoopEndsIt(t *testing.T) {
	for _, size := range []int{16, 100} {
		g, links := newGate(t, linktest.Mapped, 1)
		emitStrings(t, links[0], numbered(4, size))
		var err error
		got := 0
		for _, err = range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
			if err != nil {
				break
			}
			if got++; got == 1 {
				require.NoError(t, g.Close())
			}
		}
		require.ErrorIs(t, err, shuffle.ErrClosed)
		require.Positive(t, got)
		require.Less(t, got, 4, "at most what is in the buffer")
		for _, err := range nextAndTryNext(t, g) {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
	}
}

func TestCloseDropsWhatALoopHasLeft(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	emitStrings(t, links[0], numbered(4, 16))
	for _, err := range reader.Records(context.Background(), g.InputGate, shuffle.Strings{}) {
		require.NoError(t, err)
		break
	}
	require.NoError(t, g.Close())
	got, err := collect(g)
	require.ErrorIs(t, err, shuffle.ErrClosed)
	require.NotErrorIs(t, err, io.EOF)
	require.Empty(t, got)
}

// The next record comes after the look at the context, and is not lost by it.
func TestContextThatEndsWhileRecordsFlowEndsTheLoop(t *testing.T) {
	const segment, size, records = 1 << 20, 100, 20_000
	for _, copies := range []bool{false, true} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4,
			SegmentSize: segment})
		g := linktest.NewGate(t, linktest.Heap, 1, func(s *shuffle.GateSpec) { s.CopyRecords = copies })
		g.Attach(0, link, 0)
		emitStrings(t, link, numbered(records, size))
		ctx, cancel := context.WithCancelCause(context.Background())
		got, late := 0, 0
		var err error
		read := func(ctx context.Context) {
			for rec, loopErr := range reader.Records(ctx, g.InputGate, shuffle.Bytes{}) {
				if err = loopErr; err != nil {
					break
				}
				require.Equal(t, fmt.Sprintf("%06d", got), string(rec[:6]))
				if got++; got == 5000 {
					cancel(errors.Join(io.EOF, shuffle.ErrProducerLost))
				}
				if ctx.Err() != nil {
					late++
				}
			}
		}
		read(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, io.EOF)
		require.NotErrorIs(t, err, shuffle.ErrProducerLost)
		require.Less(t, late*size, 64<<10, "a part of the buffer of a mebibyte")
		stopped := got
		read(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, stopped, got, "not even one more")
		read(context.Background())
		require.NoError(t, err)
		require.Equal(t, records, got)
	}
}

func TestNilArgumentsAreRefused(t *testing.T) {
	g, _ := newGate(t, linktest.Heap, 1)
	records := func(ctx context.Context, g *gate.InputGate, codec shuffle.Codec[[]byte]) (err error) {
		for _, err = range reader.Records(ctx, g, codec) {
		}
		return err
	}
	var noContext context.Context
	_, nextErr := g.Next(noContext)
	_, noGate := (*gate.InputGate)(nil).Next(context.Background())
	_, zeroGate := (&gate.InputGate{}).Next(context.Background())
	layout, err := memseg.NewGateLayout(1, 2)
	require.NoError(t, err)
	region := memseg.NewHeapRegion("gate", int(layout.RegionSize()))
	bell := memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(2)))
	two := shuffle.GateSpec{Inputs: make([]shuffle.Input, 2)}
	_, noRegion := gate.NewInputGate(nil, layout, bell, two, host{})
	_, noBell := gate.NewInputGate(region, layout, nil, two, host{})
	_, noHost := gate.NewInputGate(region, layout, bell, two, nil)
	_, noInputs := gate.NewInputGate(region, layout, bell, shuffle.GateSpec{}, host{})
	for i, err := range []error{
		nextErr, noGate, zeroGate, (&gate.InputGate{}).Close(), (&gate.InputGate{}).ResumeConsumption(0), noRegion,
		noBell, noHost, noInputs,
		records(noContext, g.InputGate, shuffle.Bytes{}), records(context.Background(), nil, shuffle.Bytes{}),
		records(context.Background(), &gate.InputGate{}, shuffle.Bytes{}), records(context.Background(), g.InputGate,
			nil),
		records(context.Background(), g.InputGate, (*shuffle.Bytes)(nil)),
	} {
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, "%d", i)
	}
	g.FailChannel(-1, shuffle.ErrProducerLost)
	g.FailChannel(1, shuffle.ErrProducerLost)
	requireNothing(t, g)
	g.FailChannel(0, nil)
	_, err = g.Next(context.Background())
	require.ErrorIs(t, err, shuffle.ErrProtocol)
}

// Long records are gathered in blocks, and only up to the gate's maximum.
func TestRecordLongerThanTheGateTakesEndsItsChannel(t *testing.T) {
	for _, row := range []struct{ segment, longest int }{{64, 20}, {64, 100}, {1 << 20, 3 << 20}} {
		for _, copies := range []bool{false, true} {
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1,
				Segments: 10_000_000/row.segment/100 + 20, SegmentSize: row.segment})
			g := linktest.NewGate(t, linktest.Heap, 2, func(s *shuffle.GateSpec) {
				s.MaxRecordLength, s.CopyRecords = row.longest, copies
			})
			other := newLink(t, linktest.Heap)
			g.Attach(0, link, 0)
			g.Attach(1, other, 0)
			emitStrings(t, other, []string{"other"})
			emitted := make(chan error)
			go func() {
				var err error
				for _, n := range []int{1, row.longest, row.longest + 1, 1} {
					rec := append([]byte{0, byte(n >> 16), byte(n >> 8), byte(n)}, bytes.Repeat([]byte{7}, n)...)
					err = errors.Join(err, link.Partition.EmitRecord(context.Background(), rec, 0))
				}
				emitted <- errors.Join(err, link.Partition.Finish(context.Background()))
			}()
			var sizes []int
			var errs []error
			for range 3 {
				for rec, err := range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
					if err != nil {
						errs = append(errs, err)
					} else if string(rec) != "other" {
						sizes = append(sizes, len(rec))
					}
				}
			}
			require.Equal(t, []int{1, row.longest}, sizes)
			require.Len(t, errs, 3)
			for _, err := range errs {
				require.ErrorIs(t, err, shuffle.ErrRecordTooLarge)
				require.ErrorContains(t, err,
					fmt.Sprintf("channel 0: subpartition 0 of partition 00000000000000000000000000000000: record length is %d, want at most %d, MaxRecordLength of the gate",
						row.longest+1, row.longest))
			}
			link.Partition.DetachConsumer(0, true, "")
			if err := <-emitted; err != nil {
				require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
			}
		}
	}
}
