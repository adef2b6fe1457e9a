package gate_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/gate"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
)

func TestGateReadsItsChannelsInTurn(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 2)
		require.Equal(t, 2, g.NumChannels())
		emit(t, links[0], segmentSize)
		emit(t, links[0], 10)
		finish(t, links[0])
		emit(t, links[1], 20)
		finish(t, links[1])
		for i, want := range []element{
			buffer(0, segmentSize), buffer(1, 20), buffer(0, 10), endOfPartition(1), endOfPartition(0),
		} {
			b, err := g.Next(context.Background())
			require.NoError(t, err)
			require.Equal(t, i < 4, b.MoreAvailable, "element %d", i)
			require.Equal(t, want.typ.IsEvent(), b.IsEvent())
			if b.IsEvent() {
				e, err := b.Event()
				require.NoError(t, err)
				require.Equal(t, shuffle.EndOfPartition{}, e)
			}
			require.Equal(t, want, released(t, b))
		}
		for range 2 {
			_, err := g.Next(context.Background())
			require.ErrorIs(t, err, io.EOF)
			_, ok, err := g.TryNext()
			require.ErrorIs(t, err, io.EOF)
			require.False(t, ok)
		}
		require.NoError(t, g.Close())
		require.EqualValues(t, 1, g.Closed.Load())
	})
}

func TestGateIsFair(t *testing.T) {
	const channels, buffers = 37, 27
	for _, row := range []struct {
		name string
		// fill is called before step i, and adds buffers to all channels.
		fill func(i int, add func(n int))
	}{
		{"everything was there before", func(i int, add func(n int)) {
			if i == 0 {
				add(buffers)
			}
		}},
		{"it comes on the fly", func(i int, add func(n int)) {
			if i%(2*channels) == 0 {
				add(3)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				random := newRandom(t)
				link := linktest.New(t, linktest.Config{
					Memory: memory, Subpartitions: channels, Segments: channels * (buffers + 3), SegmentSize: 16,
				})
				gate := linktest.NewGate(t, memory, channels)
				for c := range channels {
					gate.Attach(c, link, c)
				}
				written := 0 // to each channel
				add := func(n int) {
					n = min(n, buffers-written)
					written += n
					order := make([]int, 0, n*channels)
					for range n {
						order = append(order, random.Perm(channels)...)
					}
					for _, c := range order {
						require.NoError(t, link.Partition.EmitRecord(linktest.Impatient(), make([]byte, 16), c))
					}
				}
				counts := make([]int, channels)
				for i := range channels * buffers {
					row.fill(i, add)
					counts[next(t, gate).channel]++
					require.LessOrEqual(t, slices.Max(counts)-slices.Min(counts), 1, "after %d buffers", i+1)
				}
				requireNothing(t, gate)
			})
		})
	}
}

func TestGateReadsWhatNeedsNoWaiting(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 1)
		requireNothing(t, g)
		emit(t, links[0], 10)
		requireNothing(t, g) // an open buffer that was not flushed
		require.NoError(t, links[0].Partition.FlushAll())
		require.Equal(t, buffer(0, 10), next(t, g))
		emit(t, links[0], 10)
		requireNothing(t, g)
		emit(t, links[0], 44)
		require.Equal(t, buffer(0, 54), next(t, g), "the buffer is finished")
		sendEvent(t, links[0], shuffle.CustomEvent{Name: "barrier"})
		require.Equal(t, element{0, memseg.EventBuffer, eventSize}, next(t, g))
		requireNothing(t, g)
	})
}

func TestGateWithMoreChannelsThanADoorbellWordHasBits(t *testing.T) {
	const channels = 130
	link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: channels, Segments: channels + 1,
		SegmentSize: 16})
	gate := linktest.NewGate(t, linktest.Mapped, channels)
	for c := range channels {
		gate.Attach(c, link, c)
	}
	requireNothing(t, gate)
	for _, c := range []int{0, 63, 64, 127, 128, 129} {
		require.NoError(t, link.Partition.EmitRecord(linktest.Impatient(), make([]byte, 16), c))
		require.Equal(t, buffer(c, 16), next(t, gate))
		requireNothing(t, gate)
	}
}

func TestNextSleepsUntilSomethingComes(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(t *testing.T, g *linktest.Gate, l *linktest.Link)
		want element
	}{
		{"a finished buffer", func(t *testing.T, _ *linktest.Gate, l *linktest.Link) { emit(t, l, segmentSize) },
			buffer(1, segmentSize)},
		{"a flush", func(t *testing.T, _ *linktest.Gate, l *linktest.Link) {
			emit(t, l, 10)
			require.NoError(t, l.Partition.FlushAll())
		}, buffer(1, 10)},
		{"an event", func(t *testing.T, _ *linktest.Gate, l *linktest.Link) {
			sendEvent(t, l, shuffle.CustomEvent{Name: "barrier"})
		}, element{1, memseg.EventBuffer, eventSize}},
		{"a priority event", func(t *testing.T, _ *linktest.Gate, l *linktest.Link) { sendEvent(t, l, priorityEvent) },
			element{1, memseg.PrioritizedEventBuffer, eventSize}},
		{"the end", func(t *testing.T, _ *linktest.Gate, l *linktest.Link) { finish(t, l) }, endOfPartition(1)},
		{"a partition that appears with data", func(t *testing.T, g *linktest.Gate, _ *linktest.Link) {
			late := newLink(t, linktest.Heap)
			emit(t, late, segmentSize)
			g.Attach(2, late, 0)
		}, buffer(2, segmentSize)},
	} {
		t.Run(row.name, func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				g := linktest.NewGate(t, memory, 3)
				links := []*linktest.Link{newLink(t, memory), newLink(t, memory)}
				g.Attach(0, links[0], 0)
				g.Attach(1, links[1], 0)
				requireNothing(t, g)
				got := make(chan element)
				go func() {
					b, err := g.Next(context.Background())
					if err != nil {
						t.Errorf("next: %v", err)
					}
					e := element{b.Channel, b.DataType(), b.Len()}
					_ = b.Release()
					got <- e
				}()
				require.Eventually(t, g.IsParked, wait, tick)
				row.do(t, g, links[1])
				require.Equal(t, row.want, <-got)
			})
		})
	}
}

func TestNextHonoursItsContext(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 1)
		_, err := g.Next(canceled())
		require.ErrorIs(t, err, context.Canceled)

		cause := errors.New("the job was cancelled")
		ctx, cancel := context.WithCancelCause(context.Background())
		got := make(chan error)
		go func() {
			_, err := g.Next(ctx)
			got <- err
		}()
		require.Eventually(t, g.IsParked, wait, tick)
		cancel(cause)
		require.ErrorIs(t, <-got, cause)

		emit(t, links[0], segmentSize)
		_, err = g.Next(canceled())
		require.ErrorIs(t, err, context.Canceled, "whatever there is")
		require.Equal(t, buffer(0, segmentSize), next(t, g), "and it is not lost")
	})
}

func TestCloseEndsAWaitAndRefusesEverything(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 2)
		got := make(chan error)
		go func() {
			_, err := g.Next(context.Background())
			got <- err
		}()
		require.Eventually(t, g.IsParked, wait, tick)
		require.NoError(t, g.Close()) // unmaps its memory
		require.ErrorIs(t, <-got, shuffle.ErrClosed)
		emit(t, links[0], segmentSize) // the producer does not know yet

		_, err := g.Next(context.Background())
		require.ErrorIs(t, err, shuffle.ErrClosed)
		_, _, err = g.TryNext()
		require.ErrorIs(t, err, shuffle.ErrClosed)
		require.ErrorIs(t, g.ResumeConsumption(0), shuffle.ErrClosed)
		for _, err = range reader.Records(context.Background(), g.InputGate, shuffle.Bytes{}) {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
		require.ErrorIs(t, g.Close(), shuffle.ErrClosed)
		g.FailChannel(0, errors.New("too late"))
		g.SetDaemonLost(shuffle.ErrDaemonLost)
		require.EqualValues(t, 1, g.Closed.Load())
	})
}

func TestCloseClosesViewsThatWereNotSeenYet(t *testing.T) {
	before := memseg.LiveMappings()
	link := newLink(t, linktest.Mapped)
	g := linktest.NewGate(t, linktest.Mapped, 2)
	withGate := memseg.LiveMappings()
	g.Attach(0, link, 0)
	require.NoError(t, g.Close())
	producer := int64(2) // of the consumer's words and doorbell
	require.Equal(t, withGate-2+producer, memseg.LiveMappings())
	require.NoError(t, link.Partition.Close())
	require.Equal(t, before+1, memseg.LiveMappings(), "the test's own")
}

func TestBuffersStayReadableAfterClose(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 2)
		emit(t, links[0], segmentSize)
		emit(t, links[1], 20)
		finish(t, links[1])
		var held []shuffle.BufferOrEvent
		for range 3 {
			b, err := g.Next(context.Background())
			require.NoError(t, err)
			held = append(held, b)
		}
		require.NoError(t, g.Close())
		for _, l := range links {
			require.NoError(t, l.Partition.Close())
		}
		open := memseg.LiveMappings()
		for i, want := range []element{buffer(0, segmentSize), buffer(1, 20), endOfPartition(1)} {
			b := held[i]
			require.Equal(t, want, element{b.Channel, b.DataType(), b.Len()})
			if !b.IsEvent() {
				require.EqualValues(t, want.size, b.Bytes()[want.size-1])
			}
			require.NoError(t, b.Release())
			require.ErrorIs(t, b.Release(), memseg.ErrReleased)
		}
		if memory == linktest.Mapped {
			require.Equal(t, int64(5), open-memseg.LiveMappings(), "two views of two mappings, and the gate's words")
		}
	})
}

// What a user reads after it has released it is not what it was, but nobody is harmed.
func TestWhatIsReadAfterItsEndHarmsNobody(t *testing.T) {
	g, links := newGate(t, linktest.Mapped, 1)
	emit(t, links[0], segmentSize)
	b, err := g.Next(context.Background())
	require.NoError(t, err)
	late := b.Bytes()
	require.NotZero(t, late[segmentSize-1])
	require.NoError(t, b.Release())
	require.NoError(t, g.Close())
	require.NoError(t, links[0].Partition.Close())
	runtime.GC()
	require.Zero(t, late[segmentSize-1], "it is not mapped any more")
	runtime.KeepAlive(g)
}

func TestNothingIsReadFromAChannelThatHasEnded(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 2)
	finish(t, links[0])
	require.Equal(t, endOfPartition(0), next(t, g))
	g.Ring(0)
	g.FailChannel(0, shuffle.ErrProducerLost)
	requireNothing(t, g)
	emit(t, links[1], segmentSize)
	g.Ring(0)
	require.Equal(t, buffer(1, segmentSize), next(t, g))
	requireNothing(t, g)
}

func TestUserHoldsTooManyBuffers(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 2)
		for range 8 {
			emit(t, links[0], segmentSize)
		}
		var held []shuffle.BufferOrEvent
		for range 5 { // half of the pool, and the one that is read
			b, err := g.Next(context.Background())
			require.NoError(t, err)
			held = append(held, b)
		}
		for range 2 {
			_, err := g.Next(context.Background())
			require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
			_, ok, err := g.TryNext()
			require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
			require.False(t, ok)
		}
		emit(t, links[1], segmentSize)
		var others []element
		for range 3 { // the other channel has its turn
			if b, ok, err := g.TryNext(); ok {
				others = append(others, released(t, b))
			} else {
				require.ErrorIs(t, err, shuffle.ErrTooManyBuffersHeld)
			}
		}
		require.Equal(t, []element{buffer(1, segmentSize)}, others)
		for _, b := range held {
			require.NoError(t, b.Release())
		}
		for range 3 {
			require.Equal(t, buffer(0, segmentSize), next(t, g))
		}
		requireNothing(t, g)
	})
}

func TestBarrierBlocksItsChannelOnly(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 2)
		sendEvent(t, links[0], alignedBarrier)
		emit(t, links[0], segmentSize)
		finish(t, links[0])
		require.Equal(t, element{0, memseg.AlignedCheckpointBarrier, eventSize}, next(t, g))
		emit(t, links[1], segmentSize)
		require.Equal(t, buffer(1, segmentSize), next(t, g))
		requireNothing(t, g)

		require.ErrorIs(t, g.ResumeConsumption(1), shuffle.ErrProtocol, "it is not blocked")
		require.ErrorIs(t, g.ResumeConsumption(2), shuffle.ErrInvalidArgument)
		require.ErrorIs(t, g.ResumeConsumption(-1), shuffle.ErrInvalidArgument)
		require.NoError(t, g.ResumeConsumption(0))
		require.Equal(t, buffer(0, segmentSize), next(t, g))
		require.Equal(t, endOfPartition(0), next(t, g))
		require.ErrorIs(t, g.ResumeConsumption(0), shuffle.ErrInvalidArgument, "it has ended")
	})
}

func TestResumingBesideWrites(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	const rounds = 300
	go func() {
		for range rounds {
			_ = links[0].Partition.BroadcastEvent(context.Background(), alignedBarrier)
			_ = links[0].Partition.EmitRecord(context.Background(), make([]byte, 10), 0)
			_ = links[0].Partition.FlushAll()
		}
		_ = links[0].Partition.Finish(context.Background())
	}()
	bytes, barriers := 0, 0
	for {
		e := next(t, g)
		if e.typ == memseg.EndOfPartition {
			break
		}
		if e.typ == memseg.AlignedCheckpointBarrier {
			barriers++
			require.NoError(t, g.ResumeConsumption(0))
			continue
		}
		bytes += e.size
	}
	require.Equal(t, rounds, barriers)
	require.Equal(t, 10*rounds, bytes)
}

func TestResumingBesideClose(t *testing.T) {
	for range 50 {
		g, links := newGate(t, linktest.Heap, 1)
		sendEvent(t, links[0], alignedBarrier)
		emit(t, links[0], segmentSize)
		require.Equal(t, memseg.AlignedCheckpointBarrier, next(t, g).typ)
		resumed := make(chan error)
		go func() { resumed <- g.ResumeConsumption(0) }()
		require.NoError(t, g.Close())
		if err := <-resumed; err != nil {
			require.ErrorIs(t, err, shuffle.ErrClosed)
		}
	}
}

func TestPriorityEventsAreReadBeforeOtherChannelsGoOn(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 2)
	emit(t, links[0], 2*segmentSize)
	emit(t, links[1], segmentSize)
	sendEvent(t, links[1], priorityEvent)
	sendEvent(t, links[1], priorityEvent)
	priority := element{1, memseg.PrioritizedEventBuffer, eventSize}
	for _, want := range []element{buffer(0, segmentSize), priority, priority, buffer(0, segmentSize),
		buffer(1, segmentSize)} {
		require.Equal(t, want, next(t, g))
	}
	requireNothing(t, g)
}

func TestGateCountsItsWakeUps(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	requireNothing(t, g)
	words := g.GateWords()
	require.Zero(t, words.WakeUps.Load())
	done := make(chan struct{})
	go func() {
		defer close(done)
		next(t, g)
	}()
	require.Eventually(t, g.IsParked, wait, tick)
	emit(t, links[0], segmentSize)
	<-done
	require.Positive(t, words.WakeUps.Load())
	require.Positive(t, words.IdleNs.Load())
}

func TestGateNeedsADoorbellOfItsSize(t *testing.T) {
	layout, err := memseg.NewGateLayout(1, 1<<16)
	require.NoError(t, err)
	region := memseg.NewHeapRegion("gate", int(layout.RegionSize()))
	_, err = gate.NewInputGate(region, layout, memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(1))),
		shuffle.GateSpec{Inputs: make([]shuffle.Input, 1<<16)}, host{})
	require.ErrorIs(t, err, memseg.ErrLayout)
}

// The whole of an all-to-all shuffle with buffers of its own, over many gates.
func TestManyProducersAndConsumers(t *testing.T) {
	const producers, consumers, buffers = 4, 4, 200
	for _, memory := range linktest.Memories {
		var links []*linktest.Link
		for range producers {
			links = append(links, linktest.New(t, linktest.Config{
				Memory: memory, Subpartitions: consumers, Segments: consumers + 3, SegmentSize: segmentSize,
			}))
		}
		results := make(chan error)
		for c := range consumers {
			g := linktest.NewGate(t, memory, producers)
			for i, l := range links {
				g.Attach(i, l, c)
			}
			go func() { results <- readInOrder(g, c, buffers) }()
		}
		for i, l := range links {
			random := rand.New(rand.NewPCG(uint64(i), 0))
			go func() { results <- writeInOrder(l, random, consumers, buffers) }()
		}
		for range producers + consumers {
			require.NoError(t, <-results)
		}
	}
}

// writeInOrder writes numbered buffers to all subpartitions.
func writeInOrder(l *linktest.Link, random *rand.Rand, subpartitions, buffers int) error {
	left := make([]int, subpartitions)
	for n := range subpartitions * buffers {
		sub := random.IntN(subpartitions)
		for left[sub] == buffers {
			sub = (sub + 1) % subpartitions
		}
		record := make([]byte, segmentSize)
		record[0], record[1], record[2] = byte(sub), byte(left[sub]), byte(left[sub]>>8)
		left[sub]++
		if err := l.Partition.EmitRecord(context.Background(), record, sub); err != nil {
			return err
		}
		if n%17 == 0 {
			if err := l.Partition.FlushAll(); err != nil {
				return err
			}
		}
	}
	return l.Partition.Finish(context.Background())
}

func readInOrder(g *linktest.Gate, subpartition, buffers int) error {
	counts := make([]int, g.NumChannels())
	for {
		b, err := g.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if !b.IsEvent() {
			n := counts[b.Channel]
			counts[b.Channel]++
			if b.Len() != segmentSize || int(b.Bytes()[0]) != subpartition || b.Bytes()[1] != byte(n) ||
				b.Bytes()[2] != byte(n>>8) {
				return errors.New("buffer out of order")
			}
		}
		if err := b.Release(); err != nil {
			return err
		}
	}
	for _, n := range counts {
		if n != buffers {
			return errors.New("buffers are missing")
		}
	}
	return nil
}
