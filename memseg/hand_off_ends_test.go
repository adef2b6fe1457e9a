package memseg

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"
)

// A handOffLink is a stream from a producer to a consumer: three regions, and two
// doorbells that both ends may write.
type handOffLink struct {
	partition, partitionBell *Region // the producer's
	gate, gateBell           *Region // the consumer's
}

const (
	handOffSegments    = 2
	handOffSegmentSize = 8 * 8 // eight records
	handOffChannel     = 70    // not in the first word of the bits
	handOffChannels    = 100
	handOffQuiet       = 10 * time.Second
)

var errAborted = errors.New("aborted")

func handOffLayouts() (PartitionLayout, GateLayout, error) {
	l, err := NewPartitionLayout(1, [16]byte{7}, 1, 1, handOffSegments, handOffSegmentSize)
	l.FirstOrdinal = firstBeforeWrap
	gate, gateErr := NewGateLayout(1, handOffChannels)
	return l, gate, errors.Join(err, gateErr)
}

// sizes returns the sizes of a link's objects in the order of its fields.
func handOffSizes(l *PartitionLayout, g *GateLayout) [4]int64 {
	return [4]int64{l.RegionSize(), DoorbellSize(1), g.RegionSize(), DoorbellSize(handOffChannels)}
}

func (k *handOffLink) objects() [4]**Region {
	return [4]**Region{&k.partition, &k.partitionBell, &k.gate, &k.gateBell}
}

// dump shows all words of the link.
func (k *handOffLink) dump(name string) string {
	l, err := DecodePartitionHeader(k.partition.Bytes(), int64(k.partition.Size()))
	if err != nil {
		return err.Error()
	}
	var b strings.Builder
	first := l.FirstOrdinal
	fmt.Fprintf(&b, "%s, cursors from the first ordinal:\n", name)
	q := NewQueueReader(k.partition, &l, 0)
	fmt.Fprintf(&b, "  queue    published %d position %d flushed %d buffers %d priority %d wantReleased %d\n",
		q.published.Load()-first, q.position.Load()-first, q.flushed.Load()-first, q.buffers.Load(),
		q.priorityPublished.Load()-first,
		int64(q.wantReleased.Load()-first))
	p := NewPartitionWords(k.partition)
	fmt.Fprintf(&b, "  producer parked %d records %d markers", p.Parked.Load(), p.Records.Load())
	segments := NewRegionSegments(k.partition, &l)
	for i := range l.Segments {
		fmt.Fprintf(&b, " %d", segments.Marker(i).Load())
	}
	g := GateLayout{Channels: handOffChannels}
	w := NewChannelWords(k.gate, &g, handOffChannel)
	fmt.Fprintf(&b, "\n  consumer parked %d released %d priorityReleased %d want %d\n",
		w.Parked.Load(), w.Released.Load()-first, w.PriorityReleased.Load()-first, int64(w.Want.Load()-first))
	for name, region := range map[string]*Region{"producer": k.partitionBell, "consumer": k.gateBell} {
		fmt.Fprintf(&b, "  %s's doorbell: rings %d, bits %x %x\n", name, region.Word32(doorbellFutex).Load(),
			region.Word(doorbellBits).Load(), region.Word(doorbellBits+8).Load())
	}
	return b.String()
}

// A handOffProducer writes records of eight bytes, as a ResultPartition does.
type handOffProducer struct {
	segments     RegionSegments
	events       *EventSlots
	queue        *QueueWriter
	builder      BufferBuilder
	open         bool
	segment      int
	holds        int // segments in the queue
	words        PartitionWords
	bell         *Doorbell
	consumer     ChannelWords
	consumerBell *Doorbell
	aborted      *atomic.Bool
	jitter       func()
	parks        int
}

func newHandOffProducer(k *handOffLink, aborted *atomic.Bool, jitter func()) (*handOffProducer, error) {
	l, err := DecodePartitionHeader(k.partition.Bytes(), int64(k.partition.Size()))
	if err != nil {
		return nil, err
	}
	g, err := DecodeGateHeader(k.gate.Bytes(), int64(k.gate.Size()))
	if err != nil {
		return nil, err
	}
	events := NewEventSlots(k.partition)
	p := &handOffProducer{
		segments: NewRegionSegments(k.partition, &l), events: events, queue: NewQueueWriter(k.partition, &l, 0, events),
		words:    NewPartitionWords(k.partition),
		consumer: NewChannelWords(k.gate, &g, handOffChannel), aborted: aborted, jitter: jitter,
	}
	if p.bell, err = NewDoorbell(k.partitionBell, 1); err != nil {
		return nil, err
	}
	p.consumerBell, err = NewDoorbell(k.gateBell, handOffChannels)
	return p, err
}

func (p *handOffProducer) ring(needed bool) {
	if p.jitter(); needed {
		p.consumerBell.Ring(handOffChannel, p.consumer.Parked)
	}
}

// write writes a record, and asks for it to be read at once if flush.
func (p *handOffProducer) write(n uint64, flush bool) error {
	if !p.open {
		if err := p.whenRoom(func() bool { return p.queue.HasRoom() && p.holds < handOffSegments }); err != nil {
			return err
		}
		p.builder.Reset(p.segments.Bytes(p.segment), p.segments.Marker(p.segment))
		d := Descriptor{Type: DataBuffer, Segment: p.segment}
		p.segment = (p.segment + 1) % handOffSegments
		p.holds++
		p.open = true
		if err := p.queue.PublishBuffer(d); err != nil {
			return err
		}
	}
	p.jitter()
	binary.LittleEndian.PutUint64(p.builder.Reserve(8), n)
	p.builder.Advance(8)
	if p.builder.IsFull() {
		n := p.builder.Finish()
		p.open = false
		p.jitter()
		p.ring(p.queue.Advance(n, 1, p.consumer.Want))
	}
	if flush {
		p.flush()
	}
	return nil
}

func (p *handOffProducer) flush() {
	open := 0
	if p.open {
		open = p.builder.PublishWritten()
	}
	p.jitter()
	p.ring(p.queue.Flush(open, p.consumer.Want))
}

// event queues an event behind a finished buffer.
func (p *handOffProducer) event(typ DataType, content []byte) error {
	if p.open {
		p.open = false
		p.ring(p.queue.Advance(p.builder.Finish(), 1, p.consumer.Want))
	}
	e, err := p.events.Put(content)
	if err != nil {
		return err
	}
	defer p.events.Release(e)
	wait := p.whenRoom(func() bool {
		err = p.queue.PublishEvent(typ, e)
		return !errors.Is(err, ErrQueueFull)
	})
	if err := errors.Join(err, wait); err != nil {
		return err
	}
	p.jitter()
	crossed := p.queue.Advance(0, 1, p.consumer.Want)
	p.jitter()
	flushed := p.queue.Flush(0, p.consumer.Want)
	p.ring(crossed || flushed)
	return nil
}

func (p *handOffProducer) reclaim() (taken int, err error) {
	return p.queue.AcceptReleased(p.consumer.Released.Load(), p.open, func(uint64) { p.holds-- })
}

// whenRoom waits until try succeeds.
func (p *handOffProducer) whenRoom(try func() bool) error {
	if try() {
		return nil
	}
	if _, err := p.reclaim(); err != nil || try() {
		return err
	}
	p.flush()
	for {
		rings := p.bell.Rings()
		p.jitter()
		p.bell.Collect(1, func(int) {})
		p.jitter()
		p.queue.ArmReleased(max(1, p.queue.Unreleased()/2))
		p.jitter()
		taken, err := p.reclaim()
		if err != nil || try() {
			return err
		}
		if taken > 0 {
			continue // the wish was passed: make it anew
		}
		if p.aborted.Load() {
			return errAborted
		}
		p.jitter()
		if err := p.bell.park(context.Background(), rings, p.words.Parked, time.Hour); err != nil {
			return err
		}
		p.parks++
	}
}

// A handOffConsumer reads a stream, as an InputGate does with a SubpartitionView.
type handOffConsumer struct {
	segments     RegionSegments
	queue        *QueueReader
	head         BufferConsumer
	reading      bool
	position     uint64
	words        ChannelWords
	bell         *Doorbell
	rings        uint32
	ready        bool
	producer     PartitionWords
	producerBell *Doorbell
	aborted      *atomic.Bool
	jitter       func()
	parks        int
}

func newHandOffConsumer(k *handOffLink, aborted *atomic.Bool, jitter func()) (*handOffConsumer, error) {
	l, err := DecodePartitionHeader(k.partition.Bytes(), int64(k.partition.Size()))
	if err != nil {
		return nil, err
	}
	g, err := DecodeGateHeader(k.gate.Bytes(), int64(k.gate.Size()))
	if err != nil {
		return nil, err
	}
	c := &handOffConsumer{
		segments: NewRegionSegments(k.partition, &l), queue: NewQueueReader(k.partition, &l, 0),
		position: l.FirstOrdinal,
		words:    NewChannelWords(k.gate, &g, handOffChannel), producer: NewPartitionWords(k.partition),
		aborted: aborted, jitter: jitter,
		ready: true, // it has not looked and so not armed yet
	}
	if c.bell, err = NewDoorbell(k.gateBell, handOffChannels); err != nil {
		return nil, err
	}
	c.producerBell, err = NewDoorbell(k.partitionBell, 1)
	return c, err
}

// Recycle publishes the release of an element.
func (c *handOffConsumer) Recycle(ordinal uint64) {
	c.jitter()
	c.words.Released.Store(ordinal + 1)
	c.jitter()
	if c.queue.CrossesWantReleased(ordinal, ordinal+1) {
		c.jitter()
		c.producerBell.Ring(0, c.producer.Parked)
	}
}

// poll reads what is there of the next element.
func (c *handOffConsumer) poll(b *Buffer) (ok bool, err error) {
	for {
		if err := c.queue.Refresh(); err != nil {
			return false, err
		}
		if c.queue.Queued() == 0 {
			return false, nil
		}
		if !c.reading {
			d, err := c.queue.Peek()
			if err != nil {
				return false, err
			}
			if d.Type.IsEvent() {
				c.head.ResetStatic(c.queue.EventBytes(d), d.Type, c, c.queue.Next())
			} else {
				c.head.Reset(c.segments.Bytes(d.Segment), c.segments.Marker(d.Segment), d.Type, c, c.queue.Next())
			}
			c.reading = true
		}
		c.jitter()
		if err := c.head.Build(b); err != nil {
			return false, err
		}
		if c.head.DataType().IsBuffer() {
			c.position += uint64(b.Len())
		}
		finished := c.head.IsFinished()
		if finished {
			c.queue.Advance()
			c.position++
			c.reading = false
			c.head.Close()
		}
		if b.Len() > 0 {
			return true, nil
		}
		if err := b.Release(); err != nil || !finished {
			return false, err
		}
	}
}

func (c *handOffConsumer) collect() {
	c.bell.Collect(handOffChannels, func(channel int) { c.ready = c.ready || channel == handOffChannel })
}

// next returns the next bytes of the stream and parks until there are some. It
// arms ahead by threshold bytes.
func (c *handOffConsumer) next(b *Buffer, threshold uint64) error {
	for {
		if rings := c.bell.Rings(); rings != c.rings {
			c.rings = rings
			c.jitter()
			c.collect()
		}
		if !c.ready {
			if c.aborted.Load() {
				return errAborted
			}
			c.jitter()
			if err := c.bell.park(context.Background(), c.rings, c.words.Parked, time.Hour); err != nil {
				return err
			}
			c.parks++
			c.jitter()
			c.collect()
			continue
		}
		c.jitter()
		ok, err := c.poll(b)
		if ok || err != nil {
			return err
		}
		want := c.position + threshold
		c.words.Want.Store(want)
		c.jitter()
		c.ready = isBeyond(c.queue.Flushed(), c.position) || isBeyond(c.queue.Position(), want)
	}
}
