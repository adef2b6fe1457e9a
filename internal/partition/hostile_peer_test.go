package partition_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestMarkerAndQueueThatContradictEachOtherAreProtocolErrors(t *testing.T) {
	const size = 64
	for _, row := range []struct {
		name  string
		spoil func(r *memseg.Region, l *memseg.PartitionLayout)
		read  int // elements before the error
	}{
		{"two unfinished buffers", func(r *memseg.Region, l *memseg.PartitionLayout) {
			setMarker(r, l, 0, 10)
			setMarker(r, l, 1, 10)
		}, 0},
		{"more bytes than a segment has",
			func(r *memseg.Region, l *memseg.PartitionLayout) { setMarker(r, l, 0, -size-1) }, 0},
		{"the largest number of bytes",
			func(r *memseg.Region, l *memseg.PartitionLayout) { setMarker(r, l, 0, math.MaxInt32) }, 0},
		{"nearly the smallest number",
			func(r *memseg.Region, l *memseg.PartitionLayout) { setMarker(r, l, 0, math.MinInt32+1) }, 0},
		{"a second buffer that never was started", func(r *memseg.Region, l *memseg.PartitionLayout) {
			setMarker(r, l, 0, -size)
			setMarker(r, l, 1, size+1)
		}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 4,
				SegmentSize: size})
			view := link.View(0)
			q := link.Queue(0)
			for i := range 2 {
				require.NoError(t, q.PublishBuffer(memseg.Descriptor{Type: memseg.DataBuffer, Segment: i}))
			}
			row.spoil(link.Region(), &link.Layout)
			for range row.read {
				require.Equal(t, size, poll(t, view).size)
			}
			_, err := view.Take(&memseg.Buffer{})
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			require.ErrorContains(t, err, link.Partition.ID().String())
		})
	}
}

func setMarker(r *memseg.Region, l *memseg.PartitionLayout, segment int, value int32) {
	r.Word32(int(l.MarkerOffset(segment))).Store(uint32(value))
}

func TestMarkerThatGoesBackIsAProtocolError(t *testing.T) {
	for _, row := range []struct{ first, then int32 }{{10, 9}, {10, -9}, {10, 0}, {10, math.MinInt32}} {
		s := newStream(t, linktest.Heap, 4, 64)
		s.write(10)
		require.Equal(t, int(row.first), s.poll().size)
		setMarker(s.Region(), &s.Layout, 0, row.then)
		_, err := s.c.Take(&memseg.Buffer{})
		require.ErrorIs(t, err, shuffle.ErrProtocol)
	}
}

func TestElementsInTheWrongRingAreProtocolErrors(t *testing.T) {
	content := make([]byte, 4)
	for _, typ := range []memseg.DataType{memseg.EndOfPartition, event, alignedEvent, data, none, 200} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4, SegmentSize: 64})
		view := link.View(0)
		q := link.Queue(0)
		require.NoError(t, q.PublishPriorityEvent(typ, content))
		_, err := view.Take(&memseg.Buffer{})
		require.ErrorIs(t, err, shuffle.ErrProtocol, "%v in the priority ring", typ)
	}
}

// spoiltValues are what a hostile peer may make of a word.
func spoiltValues(v uint64) []uint64 {
	return []uint64{0, v + 1, v - 1, v ^ 1<<31, v ^ 1<<32, v ^ 1<<63, math.MaxUint64}
}

// Whatever a producer writes over its own control words, its consumer gets data,
// nothing, or a protocol error: no panic, no byte outside the region, no endless
// stream.
func TestConsumerSurvivesEverySpoiltWordOfTheProducer(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 4, SegmentSize: 64})
	p := link.Partition
	emit(t, p, 64+10, 0)
	sendEvent(t, p, newBarrier(event))
	sendEvent(t, p, newBarrier(priorityEvent))
	sendEvent(t, p, newBarrier(alignedEvent))
	emit(t, p, 64+10, 0)
	require.NoError(t, p.FlushAll())
	whole := link.Region().Bytes()

	region := memseg.NewHeapRegion("spoilt", len(whole))
	gateLayout, err := memseg.NewGateLayout(1, 1)
	require.NoError(t, err)
	gate := memseg.NewHeapRegion("gate", int(gateLayout.RegionSize()))
	bell := memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(1)))
	outcomes := map[string]int{}
	for offset := 0; offset < int(link.Layout.ControlSize()); offset += 8 {
		original := binary.LittleEndian.Uint64(whole[offset:])
		for _, value := range spoiltValues(original) {
			for _, pollsBefore := range []int{0, 2} {
				copy(region.Bytes(), whole)
				view, err := partition.NewSubpartitionView(region, link.Layout, bell, 0,
					memseg.NewChannelWords(gate, &gateLayout, 0), nil)
				require.NoError(t, err)
				for range pollsBefore {
					poll(t, view)
				}
				binary.LittleEndian.PutUint64(region.Bytes()[offset:], value)
				outcomes[pollToTheEnd(t, view, link.Layout.QueueCapacity)]++
				view.Close(false)
			}
		}
	}
	require.Positive(t, outcomes["protocol error"])
	require.Positive(t, outcomes["end"])
	require.Equal(t, 2*len(spoiltValues(0)), outcomes["taken away"], "of the one word that says so")
	require.Len(t, outcomes, 3)
}

// pollToTheEnd polls as a gate does.
func pollToTheEnd(t *testing.T, view *partition.SubpartitionView, capacity int) string {
	t.Helper()
	for range 4 * capacity {
		view.IsAvailableBeyond(0)
		b := &memseg.Buffer{}
		ok, err := view.Take(b)
		if errors.Is(err, shuffle.ErrPartitionReleased) {
			return "taken away"
		}
		if err != nil {
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			return "protocol error"
		}
		if !ok {
			if err := view.ResumeConsumption(); err == nil {
				continue
			}
			view.Arm(100)
			return "end"
		}
		for _, c := range b.Bytes() {
			_ = c // a byte outside the region would fault
		}
		require.NoError(t, b.Release())
	}
	return "no end"
}

// Whatever a consumer writes over its own words, its producer goes on for the
// others.
func TestProducerSurvivesEverySpoiltWordOfAConsumer(t *testing.T) {
	words := map[string]func(w memseg.ChannelWords) *memseg.Word{
		"released":          func(w memseg.ChannelWords) *memseg.Word { return w.Released },
		"priority released": func(w memseg.ChannelWords) *memseg.Word { return w.PriorityReleased },
		"want":              func(w memseg.ChannelWords) *memseg.Word { return w.Want },
	}
	for name, word := range words {
		for variant := range spoiltValues(0) {
			link := linktest.New(t, linktest.Config{
				Memory: linktest.Heap, Subpartitions: 2, Segments: 8, SegmentSize: 64,
				OnLost: shuffle.DiscardOnConsumerLost,
			})
			p := link.Partition
			hostile, honest := link.Consumer(0), link.View(1)
			broadcast(t, p, 100)
			emit(t, p, 100, 0)
			sendEvent(t, p, newBarrier(priorityEvent))
			poll(t, hostile.SubpartitionView)
			poll(t, hostile.SubpartitionView)
			w := word(hostile.Words)
			w.Store(spoiltValues(w.Load())[variant])
			hostile.Words.Parked.Store(1)
			for i := range 20 {
				require.NoError(t, p.FlushAll())
				if name != "want" {
					p.Reclaim()
				} else {
					poll(t, hostile.SubpartitionView) // it reads on
				}
				if err := p.EmitRecord(impatient(), bytes.Repeat([]byte{byte(i)}, 64), 1); err != nil {
					require.ErrorIs(t, err, context.Canceled)
				}
				for {
					if _, typ := take(t, honest); typ == none {
						break
					}
				}
			}
		}
	}
}

func TestHonestConsumerIsNotHarmedByAHostileOne(t *testing.T) {
	for _, memory := range linktest.Memories {
		link := linktest.New(t, linktest.Config{
			Memory: memory, Subpartitions: 2, Segments: 8, SegmentSize: 64, OnLost: shuffle.DiscardOnConsumerLost,
		})
		p := link.Partition
		hostile, honest := link.Consumer(0), link.View(1)
		random := newRandom(t)
		var stop atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for !stop.Load() {
				v := linktest.NearWrap + uint64(random.IntN(20))
				switch random.IntN(4) {
				case 0:
					hostile.Words.Want.Store(v)
				case 1:
					hostile.Words.Parked.Store(uint32(random.IntN(2)))
				case 2:
					hostile.Words.Released.Store(v)
				case 3:
					hostile.Words.PriorityReleased.Store(v)
				}
			}
		}()
		var sent, got []byte
		read := func() {
			for {
				content, typ := take(t, honest)
				if typ == none {
					return
				}
				got = append(got, content...)
			}
		}
		for i := range 3000 {
			record := bytes.Repeat([]byte{byte(i)}, 64)
			for {
				err := p.EmitRecord(impatient(), record, i%2)
				if err == nil {
					break
				}
				require.ErrorIs(t, err, context.Canceled)
				read()
			}
			if i%2 == 1 {
				sent = append(sent, record...)
			}
			read()
		}
		stop.Store(true)
		<-done
		read()
		require.Equal(t, sent, got)
	}
}

// Each element that was handed out keeps the memory mapped, so no number of them may
// be taken for another.
func TestProducerThatPublishesOverWhatIsNotReleasedEndsItsChannel(t *testing.T) {
	for _, row := range []struct {
		name    string
		publish func(q *linktest.Queue, i int) error
	}{
		{"priority events", func(q *linktest.Queue, i int) error {
			require.NoError(t, q.AcceptPriorityReleased(linktest.NearWrap+uint64(i)))
			return q.PublishPriorityEvent(priorityEvent, make([]byte, 8))
		}},
		{"elements", func(q *linktest.Queue, i int) error {
			_, err := q.AcceptReleased(linktest.NearWrap+uint64(i), false, func(uint64) {})
			require.NoError(t, err)
			defer q.Advance(0, 1, nil)
			return q.PublishEvent(event, make([]byte, 8))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			unmapped := 0
			link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 256,
				SegmentSize: 16})
			gate, err := memseg.NewGateLayout(1, 1)
			require.NoError(t, err)
			words := memseg.NewChannelWords(memseg.NewHeapRegion("gate", int(gate.RegionSize())), &gate, 0)
			bell := memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(1)))
			view, err := partition.NewSubpartitionView(link.Region(), link.Layout, bell, 0, words,
				func(bool) { unmapped++ })
			require.NoError(t, err)
			q := link.Queue(0)
			require.NoError(t, row.publish(q, 0))
			first := hold(t, view)
			var kept []*memseg.Buffer
			for i := 1; err == nil && i <= 2*link.Layout.QueueCapacity; i++ {
				require.NoError(t, row.publish(q, i))
				b := &memseg.Buffer{}
				_, err = view.Take(b)
				switch {
				case err != nil:
				case i%2 == 0:
					kept = append(kept, b)
				default:
					require.NoError(t, b.Release())
				}
				if errors.Is(err, shuffle.ErrTooManyBuffersHeld) {
					for _, b := range kept {
						require.NoError(t, b.Release())
					}
					kept, err = nil, nil
				}
			}
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			require.ErrorContains(t, err, "released")
			view.Close(false)
			for _, b := range kept {
				require.NoError(t, b.Release())
			}
			require.Zero(t, unmapped, "the first is still held")
			require.Len(t, first.Bytes(), 8)
			require.NoError(t, first.Release())
			require.Equal(t, 1, unmapped)
		})
	}
}

func TestReleaseSurvivesAFaultOfTheProducersMemory(t *testing.T) {
	s := newStream(t, linktest.Mapped, 4, 16)
	s.write(32)
	sendEvent(t, s.p, newBarrier(priorityEvent))
	memfd, err := memseg.CreateMemfd("foreign", int64(s.Region().Size()))
	require.NoError(t, err)
	region, err := memfd.Map(memseg.ReadWrite, 0)
	require.NoError(t, err)
	copy(region.Bytes(), s.Region().Bytes())
	gate, err := memseg.NewGateLayout(1, 1)
	require.NoError(t, err)
	words := memseg.NewChannelWords(memseg.NewHeapRegion("gate", int(gate.RegionSize())), &gate, 0)
	bell := memseg.NewHeapRegion("doorbell", int(memseg.DoorbellSize(1)))
	unmapped := 0
	view, err := partition.NewSubpartitionView(region, s.Layout, bell, 0, words, func(bool) { unmapped++ })
	require.NoError(t, err)
	priority, buffer := hold(t, view), hold(t, view)
	require.NoError(t, unix.Mprotect(region.Bytes(), unix.PROT_NONE))
	require.NoError(t, buffer.Release())
	require.NoError(t, priority.Release())
	require.Equal(t, s.Layout.FirstOrdinal+1, words.Released.Load())
	view.Close(false)
	require.Equal(t, 1, unmapped)
	require.NoError(t, region.Close())
	require.NoError(t, memfd.Close())
}
