package gate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/gate"
	"shuffled/internal/partition"
	"shuffled/internal/standstill"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/reader"
	"shuffled/shuffle"
)

func TestFailedChannelDeliversWhatWasCommittedThenItsError(t *testing.T) {
	for _, want := range []error{
		shuffle.ErrProducerLost, shuffle.ErrPartitionFailed, shuffle.ErrPartitionReleased, shuffle.ErrPartitionExpired,
	} {
		t.Run(want.Error(), func(t *testing.T) {
			overMemories(t, func(t *testing.T, memory linktest.Memory) {
				g, links := newGate(t, memory, 2)
				requireNothing(t, g)
				emit(t, links[0], segmentSize)
				sendEvent(t, links[0], shuffle.CustomEvent{Name: "barrier"})
				emit(t, links[0], 10) // neither finished nor flushed
				sendEvent(t, links[0], priorityEvent)
				emit(t, links[0], 11)
				require.NoError(t, links[0].Partition.Close())
				g.FailChannel(0, want)
				g.FailChannel(0, errors.New("told twice"))
				for _, e := range []element{
					{0, memseg.PrioritizedEventBuffer, eventSize}, buffer(0, segmentSize),
					{0, memseg.EventBuffer, eventSize},
					buffer(0, 10), buffer(0, 11),
				} {
					require.Equal(t, e, next(t, g))
				}
				_, err := g.Next(context.Background())
				require.ErrorIs(t, err, want)
				require.ErrorContains(t, err, "channel 0")
				require.NotErrorIs(t, err, io.EOF)
				require.NotErrorIs(t, err, shuffle.ErrIncomplete)
				var told *shuffle.ChannelError
				require.ErrorAs(t, err, &told)
				require.Equal(t, &shuffle.ChannelError{Channel: 0, Ended: true, Err: want}, told)
				requireNothing(t, g) // it is told once

				emit(t, links[1], segmentSize)
				finish(t, links[1])
				require.Equal(t, buffer(1, segmentSize), next(t, g), "the other channel goes on")
				require.Equal(t, endOfPartition(1), next(t, g))
				requireIncomplete(t, g, want)
			})
		})
	}
}

// requireIncomplete says that a gate has ended with a loss, whoever asks how often.
func requireIncomplete(t testing.TB, g *linktest.Gate, want error) {
	t.Helper()
	for range 2 {
		_, byNext := g.Next(context.Background())
		_, ok, byTryNext := g.TryNext()
		require.False(t, ok)
		records, byRecords := collect(g)
		require.Empty(t, records)
		for _, err := range []error{byNext, byTryNext, byRecords} {
			require.ErrorIs(t, err, shuffle.ErrIncomplete)
			require.ErrorIs(t, err, want)
			require.NotErrorIs(t, err, io.EOF)
			var told *shuffle.ChannelError
			require.ErrorAs(t, err, &told)
		}
	}
}

func TestFailureWakesAWaitingReader(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		for _, row := range []struct {
			name string
			do   func(g *linktest.Gate)
			want error
		}{
			{"attached", func(g *linktest.Gate) { g.FailChannel(0, shuffle.ErrProducerLost) }, shuffle.ErrProducerLost},
			{"not attached", func(g *linktest.Gate) { g.FailChannel(1, shuffle.ErrPartitionNotFound) },
				shuffle.ErrPartitionNotFound},
			{"the daemon is lost", func(g *linktest.Gate) { g.SetDaemonLost(shuffle.ErrDaemonLost) },
				shuffle.ErrDaemonLost},
		} {
			t.Run(row.name, func(t *testing.T) {
				g := linktest.NewGate(t, memory, 2)
				g.Attach(0, newLink(t, memory), 0)
				got := make(chan error)
				go func() {
					_, err := g.Next(context.Background())
					got <- err
				}()
				require.Eventually(t, g.IsParked, wait, tick)
				row.do(g)
				require.ErrorIs(t, <-got, row.want)
			})
		}
	})
}

// A lookedAt context calls look when it is asked whether it has ended.
type lookedAt struct {
	context.Context
	look func()
}

func (c lookedAt) Err() error {
	c.look()
	return c.Context.Err()
}

// The ring of whoever gives the gate up may be taken note of as one for news.
func TestGateThatIsGivenUpBeforeALookForNewsDoesNotSleep(t *testing.T) {
	g, _ := newGate(t, linktest.Heap, 1)
	requireNothing(t, g)
	before := g.GateWords().WakeUps.Load()
	looks := 0
	_, err := g.Next(lookedAt{context.Background(), func() {
		if looks++; looks == 1 {
			g.Sever(shuffle.ErrFenced)
		}
	}})
	require.ErrorIs(t, err, shuffle.ErrFenced)
	require.Equal(t, before, g.GateWords().WakeUps.Load())
}

func TestFailureOfAChannelThatHasEndedIsIgnored(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 2)
	finish(t, links[0])
	require.Equal(t, endOfPartition(0), next(t, g))
	g.FailChannel(0, shuffle.ErrProducerLost)
	finish(t, links[1])
	require.Equal(t, endOfPartition(1), next(t, g))
	g.FailChannel(1, shuffle.ErrProducerLost)
	_, err := g.Next(context.Background())
	require.ErrorIs(t, err, io.EOF)
}

// A stream that was finished is whole, whatever happened to its producer then.
func TestFinishedStreamEndsThoughItsChannelFails(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 1)
	emit(t, links[0], 10)
	finish(t, links[0])
	g.FailChannel(0, shuffle.ErrProducerLost)
	require.Equal(t, buffer(0, 10), next(t, g))
	require.Equal(t, endOfPartition(0), next(t, g))
	_, err := g.Next(context.Background())
	require.ErrorIs(t, err, io.EOF)
}

func TestViewThatComesAfterTheFailureIsClosed(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		before := memseg.LiveMappings()
		g := linktest.NewGate(t, memory, 1)
		g.FailChannel(0, shuffle.ErrPartitionNotFound)
		_, err := g.Next(context.Background())
		require.ErrorIs(t, err, shuffle.ErrPartitionNotFound)
		link := newLink(t, memory)
		mapped := memseg.LiveMappings()
		g.Attach(0, link, 0)
		requireIncomplete(t, g, shuffle.ErrPartitionNotFound)
		if memory == linktest.Mapped {
			producer := int64(2) // of the consumer's words and doorbell
			require.Equal(t, mapped+producer, memseg.LiveMappings(), "the view has unmapped its memory")
			require.Greater(t, mapped, before)
		}
	})
}

// While the daemon is lost, attached pairs go on, and a wait ends because nobody
// would notice the death of a producer.
func TestGateWithoutDaemon(t *testing.T) {
	t.Parallel()
	for _, memory := range linktest.Memories {
		lost := errors.New("socket closed")
		g := linktest.NewGate(t, memory, 3)
		links := []*linktest.Link{newLink(t, memory), newLink(t, memory)}
		g.Attach(0, links[0], 0)
		g.Attach(1, links[1], 0)
		g.SetDaemonLost(lost)
		g.SetDaemonLost(errors.New("again"))
		_, err := g.Next(context.Background())
		require.ErrorIs(t, err, lost)
		require.ErrorContains(t, err, "channel 2", "that one will never be attached")
		emit(t, links[0], segmentSize)
		require.Equal(t, buffer(0, segmentSize), next(t, g))
		for range 2 {
			_, err = g.Next(context.Background())
			require.Equal(t, lost, err)
		}
		emit(t, links[1], segmentSize)
		require.Equal(t, buffer(1, segmentSize), next(t, g), "it may be called again")
	}
}

// The loss of the daemon is told after what was committed, even if nothing rings.
func TestWhatIsThereIsReadBeforeTheLossOfTheDaemonIsTold(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		t.Parallel()
		g, links := newGate(t, memory, 2)
		g.SetDaemonLost(shuffle.ErrDaemonLost)
		requireNothing(t, g)
		rings := g.Rings()
		emit(t, links[1], segmentSize)
		g.LoseReadyBits()
		g.PutCountBack(rings)
		require.Equal(t, buffer(1, segmentSize), next(t, g))
		_, err := g.Next(context.Background())
		require.ErrorIs(t, err, shuffle.ErrDaemonLost)

		emit(t, links[1], 10) // into a buffer that stays open
		require.Equal(t, buffer(1, 10), firstByTrying(t, g))
		emit(t, links[1], 20)
		require.Equal(t, buffer(1, 20), next(t, g))
	})
}

// firstByTrying tries until there is something.
func firstByTrying(t *testing.T, g *linktest.Gate) element {
	t.Helper()
	for {
		b, ok, err := g.TryNext()
		require.NoError(t, err)
		if ok {
			return released(t, b)
		}
		time.Sleep(tick)
	}
}

func TestHostileProducerEndsItsChannelOnly(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		g, links := newGate(t, memory, 2)
		emit(t, links[0], segmentSize)
		emit(t, links[0], segmentSize)
		marker := links[0].Region().Word32(int(links[0].Layout.MarkerOffset(1)))
		marker.Store(segmentSize + 1)
		require.Equal(t, buffer(0, segmentSize), next(t, g))
		_, err := g.Next(context.Background())
		require.ErrorIs(t, err, shuffle.ErrProtocol)
		require.ErrorContains(t, err, "channel 0")
		emit(t, links[0], segmentSize)
		emit(t, links[1], segmentSize)
		require.Equal(t, buffer(1, segmentSize), next(t, g))
		requireNothing(t, g)
	})
}

func TestFaultOfForeignMemoryIsAnError(t *testing.T) {
	link := newLink(t, linktest.Mapped)
	emit(t, link, segmentSize)
	size := int64(link.Region().Size())
	memfd, err := memseg.CreateMemfd("foreign", size)
	require.NoError(t, err)
	region, err := memfd.Map(memseg.ReadWrite, 0)
	require.NoError(t, err)
	copy(region.Bytes(), link.Region().Bytes())
	g := linktest.NewGate(t, linktest.Mapped, 1)
	bell := memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(1)))
	view, err := partition.NewSubpartitionView(region, link.Layout, bell, 0, g.ChannelWords(0), nil)
	require.NoError(t, err)
	g.AttachChannel(0, view)
	require.NoError(t, unix.Mprotect(region.Bytes(), unix.PROT_NONE))
	require.True(t, g.IsAvailable(), "who looks takes nothing")
	require.NoError(t, g.WaitAvailable(context.Background()))
	_, err = g.Next(context.Background())
	require.ErrorIs(t, err, memseg.ErrFault)
	require.ErrorContains(t, err, "channel 0")
	requireIncomplete(t, g, memseg.ErrFault)
	require.NoError(t, g.Close())
	require.NoError(t, region.Close())
	require.NoError(t, memfd.Close())
}

// A channel whose bit a hostile peer has cleared is not looked at, since nobody
// looks at all channels for each poll; and it is not forgotten.
func TestLostReadyBitsDelayAndLoseNothing(t *testing.T) {
	for _, row := range []struct {
		name    string
		harass  func(t *testing.T, g *linktest.Gate) (stop func())
		between func(t *testing.T, busy *linktest.Link)
	}{
		{name: "all is quiet then"},
		{name: "somebody keeps ringing", harass: func(_ *testing.T, g *linktest.Gate) func() {
			var stop atomic.Bool
			done := make(chan struct{})
			go func() {
				defer close(done)
				for !stop.Load() {
					g.Wake()
					g.LoseReadyBits()
				}
			}()
			return func() { stop.Store(true); <-done }
		}},
		{name: "another channel is always ready", between: func(t *testing.T, busy *linktest.Link) {
			for busy.Partition.EmitRecord(linktest.Impatient(), make([]byte, segmentSize), 0) == nil {
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			g, links := newGate(t, linktest.Heap, 2)
			requireNothing(t, g)
			emit(t, links[0], segmentSize)
			g.LoseReadyBits()
			requireNothing(t, g)
			if row.harass != nil {
				defer row.harass(t, g)()
			}
			for {
				if row.between != nil {
					row.between(t, links[1])
				}
				if e := next(t, g); e.channel == 0 {
					require.Equal(t, buffer(0, segmentSize), e)
					break
				}
			}
		})
	}
}

func TestSpoiltDoorbellLosesNothing(t *testing.T) {
	random := newRandom(t)
	const channels, buffers = 3, 400
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: channels, Segments: channels + 2,
		SegmentSize: segmentSize})
	g := linktest.NewGate(t, linktest.Heap, channels)
	for c := range channels {
		g.Attach(c, link, c)
	}
	var stop atomic.Bool
	spoilt := make(chan struct{})
	go func() {
		defer close(spoilt)
		for !stop.Load() {
			switch random.IntN(3) {
			case 0:
				g.Ring(random.IntN(channels))
			case 1:
				g.Wake()
			case 2:
				g.RingHostile(random.IntN(64))
			}
		}
	}()
	written := make(chan error)
	go func() {
		for n := range channels * buffers {
			if err := link.Partition.EmitRecord(context.Background(), make([]byte, segmentSize),
				n%channels); err != nil {
				written <- err
				return
			}
		}
		written <- link.Partition.Finish(context.Background())
	}()
	counts := make([]int, channels)
	for {
		b, err := g.Next(context.Background())
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if e := released(t, b); e.typ == memseg.DataBuffer {
			counts[e.channel]++
		}
	}
	require.NoError(t, <-written)
	stop.Store(true)
	<-spoilt
	require.Equal(t, []int{buffers, buffers, buffers}, counts)
}

func TestProducerThatPromisesWhatIsNotThereEndsItsChannel(t *testing.T) {
	for name, promise := range map[string]func(q *linktest.Queue){
		"position": func(q *linktest.Queue) { q.Advance(10, 1, nil) },
		"flushed":  func(q *linktest.Queue) { q.Flush(10, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 4,
				SegmentSize: 64})
			gate := link.Gate(0)
			promise(link.Queue(0))
			_, err := gate.Next(context.Background())
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			_, err = gate.Next(context.Background())
			require.ErrorIs(t, err, shuffle.ErrIncomplete)
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			require.NoError(t, gate.Close())
		})
	}
}

// A peer that shares the doorbell puts the count back before the gate looks at it.
func TestRingWhoseCountIsPutBackIsBelieved(t *testing.T) {
	gate.SleepLong(t)
	g, links := newGate(t, linktest.Mapped, 2)
	requireNothing(t, g)
	for range 20 {
		rings := g.Rings()
		emit(t, links[1], 10)
		require.NoError(t, links[1].Partition.FlushAll())
		require.NotEqual(t, rings, g.Rings())
		g.PutCountBack(rings)
		ctx, cancel := context.WithTimeout(context.Background(), memseg.MaxParkTime/2)
		b, err := g.Next(ctx)
		cancel()
		require.NoError(t, err)
		require.Equal(t, buffer(1, 10), released(t, b))
		requireNothing(t, g)
	}
}

// Only a gate whose doorbell nobody can spoil but its only producer, for itself, sleeps
// longer and longer.
func TestGateThatSharesItsDoorbellNeverSleepsLong(t *testing.T) {
	require.Equal(t, time.Second, gate.LookInterval)
	const first = time.Millisecond
	gate.SleepFor(t, first)
	for _, row := range []struct {
		channels int
		grows    bool
	}{{1, true}, {2, false}, {70, false}} {
		g, _ := newGate(t, linktest.Heap, row.channels)
		requireNothing(t, g)
		slept := g.GateWords().WakeUps.Load()
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			_, err := g.Next(ctx)
			ended <- err
		}()
		require.Eventually(t, func() bool { return g.GateWords().WakeUps.Load() >= slept+5 }, wait, tick)
		cancel()
		require.ErrorIs(t, <-ended, context.Canceled)
		if row.grows {
			require.Greater(t, g.LongestSleep(), first)
			require.LessOrEqual(t, g.LongestSleep(), memseg.MaxParkTime)
		} else {
			require.Equal(t, first, g.LongestSleep(), "%d channels", row.channels)
		}
	}
}

func TestWakeUpPageSaysHowLongGatesSleep(t *testing.T) {
	page, err := os.ReadFile("../../docs/wakeup.md")
	require.NoError(t, err)
	require.Contains(t, string(page), fmt.Sprintf("| a gate of several channels | %v |", gate.LookInterval))
	require.Contains(t, string(page),
		fmt.Sprintf("| a gate of one channel | %v, doubled while nothing comes, up to %v |", gate.LookInterval,
			memseg.MaxParkTime))
	require.Contains(t, string(page), fmt.Sprintf("| either, once the daemon is lost | %v |",
		standstill.Step(standstill.Grace)))
}

// Whoever passes over refused records is told at the end of a channel that was cut, which
// says more than the first of them.
func TestGateEndsWithTheLossOfAChannelRatherThanWithARefusedRecord(t *testing.T) {
	g, links := newGate(t, linktest.Heap, 2)
	emitStrings(t, links[0], []string{"x"}) // and its end
	var seen []error
	read := func() {
		for _, err := range reader.Records(context.Background(), g.InputGate, picky{}) {
			seen = append(seen, err)
		}
	}
	read()
	require.Len(t, seen, 1)
	require.ErrorIs(t, seen[0], shuffle.ErrCorruptRecord)
	g.FailChannel(1, shuffle.ErrProducerLost)
	read()
	read()
	require.Len(t, seen, 3)
	require.ErrorIs(t, seen[2], shuffle.ErrIncomplete)
	require.ErrorIs(t, seen[2], shuffle.ErrProducerLost)
	var channel *shuffle.ChannelError
	require.ErrorAs(t, seen[2], &channel)
	require.Equal(t, 1, channel.Channel)
	require.True(t, channel.Ended)
}
