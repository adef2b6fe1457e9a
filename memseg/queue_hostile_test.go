package memseg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A hostileScript takes decisions from a fuzzer's input, or from random bytes.
type hostileScript []byte

func (s *hostileScript) next(n int) int {
	if len(*s) == 0 {
		return 0
	}
	b := (*s)[0]
	*s = (*s)[1:]
	return int(b) % n
}

// spoil is what a hostile process makes of a word: a bit flipped, one more or
// less, an extreme, or whatever the script says.
func (s *hostileScript) spoil(word uint64) uint64 {
	switch s.next(6) {
	case 0:
		return word ^ 1<<s.next(64)
	case 1:
		return word + 1
	case 2:
		return word - 1
	case 3:
		return math.MaxUint64
	case 4:
		return uint64(s.next(2)) << 31 * uint64(s.next(2))
	}
	var b [8]byte
	*s = (*s)[copy(b[:], *s):]
	return binary.LittleEndian.Uint64(b[:])
}

// spoilBytes changes an aligned word of a span of the region.
func (s *hostileScript) spoilBytes(mem []byte) {
	at := mem[(s.next(256)*256+s.next(256))%(len(mem)/8)*8:][:8]
	binary.LittleEndian.PutUint64(at, s.spoil(binary.LittleEndian.Uint64(at)))
}

// A hostileProducer owns a partition region. What it writes is sometimes right.
type hostileProducer struct {
	*queuePair
	builder BufferBuilder
	open    bool
	written int
}

func (p *hostileProducer) step(s *hostileScript) {
	w := p.writer
	switch s.next(8) {
	case 0, 1: // honest: a buffer
		if !p.open && w.HasRoom() {
			d := data(p.written)
			p.builder.Reset(p.segments.Bytes(d.Segment), p.segments.Marker(d.Segment))
			p.open = w.PublishBuffer(d) == nil
			p.written++
		}
		if p.open {
			n := s.next(256)
			if len(p.builder.Reserve(n)) == n {
				p.builder.Advance(n)
			}
			p.builder.Commit()
			w.Flush(int(p.builder.pos), nil)
			if s.next(2) == 0 {
				p.open = false
				w.Advance(p.builder.Finish(), 1, nil)
			}
		}
	case 2: // honest: an event
		if !p.open && p.publishEvent(EventBuffer, make([]byte, s.next(256))) == nil {
			w.Advance(0, 1, nil)
		}
	case 3: // honest: a priority event
		_ = p.publishEvent(PrioritizedEventBuffer, make([]byte, s.next(256)))
	case 4: // a word of the queue
		words := []*Word{w.published, w.position, w.flushed, w.buffers, w.priorityPublished, w.wantReleased}
		word := words[s.next(len(words))]
		word.Store(s.spoil(word.Load()))
	case 5: // a marker
		m := p.segments.Marker(s.next(pairSegments))
		m.store(Position(s.spoil(uint64(m.Load()))))
	case 6: // a descriptor, most often one that will be read
		ring := [][]byte{w.ring, w.priority}[s.next(2)]
		at := int(p.reader.Next()&uint64(len(ring)/descriptorSize-1)) * descriptorSize
		if s.next(4) > 0 {
			ring = ring[at : at+descriptorSize]
		}
		s.spoilBytes(ring)
	case 7: // anything in the region, its header included
		s.spoilBytes(p.region.Bytes())
	}
}

// A guardedConsumer reads a queue as a SubpartitionView does.
type guardedConsumer struct {
	reader   *QueueReader
	layout   PartitionLayout
	segments RegionSegments
	head     BufferConsumer
	reading  bool
}

// step reads one element, and returns an error only for what it found to be
// impossible.
func (c *guardedConsumer) step() (err error) {
	inRegion := func(b []byte, limit int) error {
		if len(b) > limit || cap(b) > limit {
			return fmt.Errorf("%d bytes of at most %d", len(b), limit)
		}
		for _, v := range b {
			_ = v // every byte must be readable
		}
		return nil
	}
	n, err := c.reader.RefreshPriority()
	if err != nil {
		return err
	}
	if n < 0 || n > priorityCapacity {
		return fmt.Errorf("%d priority events", n)
	}
	if n > 0 {
		d, err := c.reader.NextPriority()
		if err != nil {
			return err
		}
		return inRegion(c.reader.EventBytes(d), eventSlotSize)
	}
	if err := c.reader.Refresh(); err != nil {
		return err
	}
	queued := c.reader.Queued()
	if queued < 0 || queued > c.layout.QueueCapacity {
		return fmt.Errorf("%d elements are queued", queued)
	}
	if queued == 0 {
		return nil
	}
	if !c.reading {
		d, err := c.reader.Peek()
		if err != nil {
			return err
		}
		if d.Type.IsEvent() {
			c.head.ResetStatic(c.reader.EventBytes(d), d.Type, nil, 0)
		} else {
			mem := c.segments.Bytes(d.Segment)
			c.head.Reset(mem, c.segments.Marker(d.Segment), d.Type, nil, 0)
		}
		c.reading = true
	}
	var b Buffer
	if err := c.head.Build(&b); err != nil {
		return err
	}
	if c.head.IsFinished() {
		c.reader.Advance()
		c.reading = false
	}
	return errors.Join(inRegion(b.Bytes(), c.layout.SegmentSize), b.Release())
}

func newHostileProducer(t testing.TB, newRegion func(testing.TB, int) *Region, first uint64) (*hostileProducer,
	*guardedConsumer) {
	q := newQueuePair(t, newRegion, first)
	return &hostileProducer{queuePair: q}, &guardedConsumer{reader: q.reader, layout: q.layout, segments: q.segments}
}

// runHostileProducer lets the two take turns. A consumer ends its stream with
// the first error; here it goes on, so that more is tried.
func runHostileProducer(t testing.TB, p *hostileProducer, c *guardedConsumer, s hostileScript) (refused int) {
	for len(s) > 0 {
		p.step(&s)
		for range s.next(3) {
			if err := c.step(); err != nil {
				require.ErrorIs(t, err, ErrCorrupt)
				refused++
				c.reading = false
			}
		}
		c.reader.CrossesWantReleased(p.first, c.reader.Next())
		if next := c.reader.Next(); s.next(4) == 0 {
			p.words.Released.Store(next)
			_, _ = p.writer.AcceptReleased(next, p.open, func(uint64) {})
			_ = p.writer.AcceptPriorityReleased(c.reader.PriorityOrdinal())
		}
	}
	return refused
}

func randomScript(t testing.TB, size int) hostileScript {
	random := newRandom(t)
	s := make(hostileScript, size)
	for i := range s {
		s[i] = byte(random.Uint32())
	}
	return s
}

func FuzzConsumerOfAHostileProducer(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add([]byte("\x00\x10\x00\x02\x04\x00\x00\x01\x02\x07\x00\x00\x05\x06"), uint8(1))
	f.Add(slices.Repeat([]byte{0, 100, 1, 2, 2, 50, 1, 3, 60, 2, 4, 1, 1, 2, 5, 3, 0, 40, 2, 6, 0, 1, 8, 0, 7, 2}, 20),
		uint8(2))
	f.Fuzz(func(t *testing.T, script []byte, start uint8) {
		p, c := newHostileProducer(t, memories[0].make, firstOrdinals[int(start)%len(firstOrdinals)])
		runHostileProducer(t, p, c, script)
	})
}

func TestConsumerRefusesOrReadsInBoundsWhateverItsProducerWrites(t *testing.T) {
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		s := randomScript(t, 100_000)
		refused := 0
		for len(s) > 0 {
			n := min(len(s), 500)
			p, c := newHostileProducer(t, newRegion, firstOrdinals[len(s)%len(firstOrdinals)])
			refused += runHostileProducer(t, p, c, s[:n])
			s = s[n:]
		}
		require.Positive(t, refused)
	})
}

// hostileWhile changes words of a region, or of others, as long as f runs. The
// race detector does not see mapped memory, and must not.
func hostileWhile(seed hostileScript, spoil func(s *hostileScript), f func()) {
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for s := seed; ; {
			select {
			case <-stop:
				return
			default:
				if len(s) < 64 {
					s = seed
				}
				spoil(&s)
				runtime.Gosched() // on a single processor, too
			}
		}
	})
	f()
	close(stop)
	wg.Wait()
}

func TestConsumerSurvivesAProducerThatWritesWhileItReads(t *testing.T) {
	seed := randomScript(t, 1<<16)
	for _, first := range firstOrdinals {
		p, c := newHostileProducer(t, mappedRegion, first)
		spoil := func(s *hostileScript) {
			// Mostly what leads to elements, so that reading gets far.
			w := p.writer
			n := w.next
			w.write(w.ring, w.mask, n, Descriptor{Type: DataType(1 + s.next(3)), Segment: s.next(eventSlots + 1),
				Length: s.next(eventSlotSize + 2), PartialRecordLength: s.next(256)})
			w.next++
			w.published.Store(w.next - uint64(s.next(3)))
			m := p.segments.Marker(s.next(pairSegments))
			m.store(Position(s.next(256) * 3 * (1 - 2*s.next(2))))
			if s.next(8) == 0 {
				s.spoilBytes(p.region.Bytes()[p.layout.queueOffset(1):p.layout.SegmentOffset(0)])
			}
		}
		hostileWhile(seed, spoil, func() {
			for read, refused := 0, 0; read < 1000 || refused < 1000; {
				runtime.Gosched()
				before := c.reader.Next()
				if err := c.step(); err != nil {
					require.ErrorIs(t, err, ErrCorrupt)
					refused++
					c.reading = false
					// A new consumer, at a place that the producer is near to.
					c.reader.next = c.reader.published.Load() - 2
					c.reader.seen = c.reader.next
					c.reader.nextPriority = c.reader.priorityPublished.Load()
					c.reader.seenPriority = c.reader.nextPriority
				} else if c.reader.Next() != before {
					read++
				}
			}
		})
	}
}

// runHostileConsumer lets an honest producer meet cursors of every kind, and
// checks it against what it should accept.
func runHostileConsumer(t testing.TB, q *queuePair, s hostileScript) (refused int) {
	released, published := q.first, q.first // what the model says
	var isData []bool                       // of each element since first
	open := false
	for len(s) > 0 {
		switch s.next(6) {
		case 0:
			if open {
				q.writer.Advance(s.next(256), 1, q.words.Want)
				open = false
			} else if err := q.writer.PublishBuffer(data(0)); err == nil {
				isData, open = append(isData, true), true
				published++
			} else {
				require.ErrorIs(t, err, ErrQueueFull)
			}
		case 1:
			if !open && q.publishEvent(EventBuffer, nil) == nil {
				isData = append(isData, false)
				published++
				q.writer.Advance(0, 1, q.words.Want)
			}
		case 2:
			_ = q.publishEvent(PrioritizedEventBuffer, nil)
			q.writer.NotifyPriority(q.words.Want)
		case 3:
			q.writer.Flush(s.next(256), q.words.Want)
			q.writer.ArmReleased(1 + s.next(8))
		case 4: // right, as far as it goes
			q.words.Released.Store(released + uint64(s.next(int(published-released)+1)))
		case 5:
			words := []*Word{q.words.Released, q.words.PriorityReleased, q.words.Want}
			word := words[s.next(len(words))]
			word.Store(s.spoil(word.Load()))
		}

		cursor := q.words.Released.Load()
		limit := published - released
		if open {
			limit--
		}
		var want, got []uint64
		if cursor-released <= limit {
			for i := released; i != cursor; i++ {
				if isData[i-q.first] {
					want = append(want, i)
				}
			}
		}
		n, err := q.writer.AcceptReleased(cursor, open, func(i uint64) { got = append(got, i) })
		require.Equal(t, want, got, "each data element returns once, in order")
		if cursor-released > limit {
			require.ErrorIs(t, err, ErrCorrupt)
			require.Zero(t, n)
			refused++
		} else {
			require.NoError(t, err)
			require.EqualValues(t, cursor-released, n)
			released = cursor
		}
		require.EqualValues(t, published-released, q.writer.Unreleased())
		events := 0
		for i := released; i != published; i++ {
			if !isData[i-q.first] {
				events++
			}
		}
		require.Equal(t, events, q.writer.unreleasedEvents)
		if err := q.writer.AcceptPriorityReleased(q.words.PriorityReleased.Load()); err != nil {
			require.ErrorIs(t, err, ErrCorrupt)
			refused++
		}
		require.LessOrEqual(t, q.writer.nextPriority-q.writer.releasedPriority, uint64(priorityCapacity))
	}
	return refused
}

func FuzzProducerOfAHostileConsumer(f *testing.F) {
	f.Add([]byte{}, uint8(0))
	f.Add(slices.Repeat([]byte{0, 0, 9, 1, 4, 2, 2, 5, 0, 1, 3, 7, 2, 5, 2, 3, 4, 1}, 20), uint8(1))
	f.Add(slices.Repeat([]byte{1}, 100), uint8(2))
	f.Fuzz(func(t *testing.T, script []byte, start uint8) {
		runHostileConsumer(t, newQueuePair(t, memories[0].make, firstOrdinals[int(start)%len(firstOrdinals)]), script)
	})
}

func TestProducerRefusesOrTakesWhatItMayWhateverItsConsumerWrites(t *testing.T) {
	overEachMemory(t, func(t *testing.T, newRegion func(testing.TB, int) *Region) {
		s := randomScript(t, 50_000)
		refused := 0
		for len(s) > 0 {
			n := min(len(s), 500)
			refused += runHostileConsumer(t, newQueuePair(t, newRegion, firstOrdinals[len(s)%len(firstOrdinals)]),
				s[:n])
			s = s[n:]
		}
		require.Positive(t, refused)
	})
}
