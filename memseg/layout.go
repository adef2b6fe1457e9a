package memseg

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// The layout of partition and gate regions. docs/layout.md draws it; programs in
// other languages attach from that page alone, so nothing here may change
// without a new LayoutVersion. All integers are little-endian.

// LayoutVersion is the version of the layout that this package writes and the
// only one that it reads.
const LayoutVersion = 4

// Features of a region that a reader must know to read it. None is defined yet:
// a header with an unknown bit is refused.
const knownFeatures = 0

const (
	// lineSize keeps hot words of different writers apart: two cache lines,
	// because adjacent lines are fetched in pairs.
	lineSize = 128
	pageSize = 4096

	regionMagic = 0x3147455246554853 // "SHUFREG1"
	regionReady = 0x5944414552465348 // "HSFREADY"

	kindPartition = 1
	kindGate      = 2

	headerSize = 256
)

// Offsets in the header of every region.
// writer: daemon, once. readers: all. published by: hdrReady, before the region is handed out.
const (
	hdrMagic         = 0
	hdrVersion       = 8
	hdrSize          = 12
	hdrFeatures      = 16
	hdrKind          = 24
	hdrType          = 28
	hdrID            = 32 // 16 bytes: partition id, or the gate id and zeros
	hdrEpoch         = 48
	hdrChannels      = 56 // subpartitions of a partition, channels of a gate
	hdrSegments      = 60
	hdrSegmentSize   = 64
	hdrQueueCapacity = 68
	hdrFirstOrdinal  = 72
	hdrRegionSize    = 80
	hdrReady         = 248
)

// Words of a partition region, in front of its queues. Each is stored as a whole, and
// publishes nothing but itself.
const (
	// partParked is not 0 while the producer sleeps on its doorbell.
	// writer: producer. readers: consumers. published by: Doorbell.Park.
	partParked = 512
	// The counters of the partition.
	// writer: producer. readers: daemon. published by: ResultPartition.SetCounters.
	partRecords = 640
	// writer: producer. readers: daemon. published by: Stopwatch.
	partBackPressuredNs = 648
	// writer: producer. readers: daemon. published by: ResultPartition.SetCounters.
	partIdleNs = 656
	// writer: producer. readers: daemon. published by: each wake-up.
	partWakeUps = 664
	// partPoolSize is how many segments the partition may use.
	// writer: producer. readers: consumers. published by: ResultPartition.PoolResized.
	partPoolSize = 672

	partEventSlots  = 1024
	partQueuesStart = partEventSlots + eventSlots*eventSlotSize
)

// An event slot holds one serialised event, for as long as an element names it.
// writer: producer. readers: consumers. published by: queuePublished, queuePriority.
const (
	eventSlotSize  = 256
	eventsPerQueue = 16 // one of them is kept for end-of-partition
	eventSlots     = eventsPerQueue + priorityCapacity
)

// Words of a queue, from where it starts, and its two rings.
const (
	// queuePublished publishes the descriptors before it, with their event slots.
	// writer: producer. readers: consumer, daemon. published by: QueueWriter.PublishBuffer, PublishEvent.
	queuePublished = 0
	// writer: producer. readers: consumer, daemon. published by: QueueWriter.Advance.
	queuePosition = 8
	// writer: producer. readers: consumer. published by: QueueWriter.Flush.
	queueFlushed = 16
	// writer: producer. readers: consumer, daemon. published by: QueueWriter.PublishBuffer.
	queueBuffers = 24
	// writer: producer. readers: consumer. published by: QueueWriter.ArmReleased.
	queueWantReleased = lineSize
	// writer: producer. readers: consumer. published by: QueueWriter.LimitHeld.
	queueHeldLimit = queueWantReleased + 8
	// queuePriority publishes priority descriptors; a consumer looks at it before each
	// element.
	// writer: producer. readers: consumer. published by: QueueWriter.PublishPriorityEvent, Withdraw.
	queuePriority = 2 * lineSize

	queueControlSize = 3 * lineSize
	queueRing        = queueControlSize
	priorityCapacity = 8
)

// Fields of a descriptor, an element of a ring.
// writer: producer. readers: consumer. published by: queuePublished, queuePriority.
const (
	descStamp   = 0 // ordinal + 1, its lower half
	descSegment = 4
	descLength  = 8 // of an event; of data, the bytes of a record begun earlier
	descType    = 12

	descriptorSize = 16
)

// Position markers, and the segments behind them.
// writer: producer. readers: consumers, daemon. published by: BufferBuilder.Commit, Finish, PublishWritten.
const (
	markerStride     = 64
	segmentAlignment = pageSize
)

// Words of a gate region, in front of its channels.
const (
	// gateParked is not 0 while the consumer sleeps on its doorbell.
	// writer: consumer. readers: producers. published by: Doorbell.Park.
	gateParked = 512
	// writer: consumer. readers: daemon. published by: each wake-up.
	gateWakeUps = 640
	// writer: consumer. readers: daemon. published by: Stopwatch.
	gateIdleNs = 648

	gateChannelsStart = 1024
	gateChannelStride = 256
)

// Words of a channel, from where it starts. Before the channel is attached the daemon
// stores their first values.
const (
	// chanReleased gives up the elements before it.
	// writer: consumer. readers: producer, daemon. published by: SubpartitionView.
	chanReleased = 0
	// writer: consumer. readers: producer. published by: SubpartitionView.
	chanPriorityReleased = 8
	// writer: consumer. readers: producer. published by: SubpartitionView, before it sleeps.
	chanWant = lineSize
)

// Words of a doorbell: hints, of which any may be spoilt.
const (
	// writer: all. readers: all. published by: Doorbell.Ring, Wake.
	doorbellFutex = 0
	// Peers set bits, the owner takes them.
	// writer: all. readers: all. published by: Doorbell.Ring, Collect.
	doorbellBits = lineSize

	doorbellBitsPerWord = 64
)

// Limits of a geometry: what a header may say.
const (
	maxLayoutChannels    = 1 << 20
	maxLayoutSegments    = 1 << 22
	minLayoutSegmentSize = 8
	maxLayoutSegmentSize = 1 << 26
	minQueueCapacity     = 16
	maxQueueCapacity     = 1 << 15
)

// ringBytesPerRegion is what the rings of many queues share, where the daemon chooses
// their capacity. A reader does not need it.
const ringBytesPerRegion = 256 << 10

// LengthPrefix is how many bytes in front of each record hold its length, big-endian.
const LengthPrefix = 4

// withdrawn is added to the priority word of a queue whose consumer was given up. It
// is further from what a reader has read than any number of events.
const withdrawn = 0x4e57524448544957 // "WITHDRWN"

// EventSlotSize is the largest serialised event, in bytes.
const EventSlotSize = eventSlotSize

// A PartitionLayout is the geometry of a partition region: what its header says,
// and the offsets that follow from it.
type PartitionLayout struct {
	// Type is the result partition type, ID and Epoch the identity.
	Type  uint32
	ID    [16]byte
	Epoch uint64
	// Subpartitions is the number of queues.
	Subpartitions int
	// Segments is the largest number of segments, SegmentSize their bytes.
	Segments    int
	SegmentSize int
	// QueueCapacity is the number of descriptors of one queue, a power of two.
	QueueCapacity int
	// FirstOrdinal is where all cursors start: 0, or just below the wrap in tests.
	FirstOrdinal uint64
}

// QueueKey names the queue of a subpartition to observers from outside: it is the
// same in every process, and hardly ever that of another queue of the host.
func (l *PartitionLayout) QueueKey(subpartition int) uint64 {
	return binary.LittleEndian.Uint64(l.ID[:]) ^ l.Epoch<<32 ^ uint64(subpartition)
}

// NewPartitionLayout chooses the queue capacity for a geometry, and returns
// ErrLayout for one that the layout cannot hold.
func NewPartitionLayout(typ uint32, id [16]byte, epoch uint64, subpartitions, segments,
	segmentSize int) (PartitionLayout, error) {
	l := PartitionLayout{Type: typ, ID: id, Epoch: epoch, Subpartitions: subpartitions, Segments: segments,
		SegmentSize: segmentSize}
	// A queue that can name every segment never makes a writer wait; many queues
	// share a budget, so that an idle one stays small. A writer that finds a queue
	// full waits as if there were no segment.
	if segments > 0 && segments <= maxLayoutSegments && subpartitions > 0 {
		want := powerOfTwo(segments + eventsPerQueue)
		share := powerOfTwo(ringBytesPerRegion/descriptorSize/subpartitions+1) / 2
		l.QueueCapacity = min(max(min(want, share), minQueueCapacity), maxQueueCapacity)
	}
	return l, l.validate()
}

// powerOfTwo is the smallest that is not below n.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

func (l *PartitionLayout) validate() error {
	bad := func(field string, got, lo, hi int) error {
		return fmt.Errorf("%s is %d, want %d to %d: %w", field, got, lo, hi, ErrLayout)
	}
	switch {
	case l.Subpartitions < 1 || l.Subpartitions > maxLayoutChannels:
		return bad("subpartitions", l.Subpartitions, 1, maxLayoutChannels)
	case l.Segments < 1 || l.Segments > maxLayoutSegments:
		return bad("segments", l.Segments, 1, maxLayoutSegments)
	case l.SegmentSize < minLayoutSegmentSize || l.SegmentSize > maxLayoutSegmentSize:
		return bad("segment size", l.SegmentSize, minLayoutSegmentSize, maxLayoutSegmentSize)
	case l.QueueCapacity < minQueueCapacity || l.QueueCapacity > maxQueueCapacity:
		return bad("queue capacity", l.QueueCapacity, minQueueCapacity, maxQueueCapacity)
	case l.QueueCapacity&(l.QueueCapacity-1) != 0:
		return fmt.Errorf("queue capacity is %d, want a power of two: %w", l.QueueCapacity, ErrLayout)
	}
	return nil
}

func (l *PartitionLayout) queueStride() int64 {
	return queueControlSize + int64(l.QueueCapacity+priorityCapacity)*descriptorSize
}

func (l *PartitionLayout) queueOffset(subpartition int) int64 {
	return partQueuesStart + int64(subpartition)*l.queueStride()
}

func (l *PartitionLayout) markersOffset() int64 {
	return roundUp(l.queueOffset(l.Subpartitions), lineSize)
}

func (l *PartitionLayout) markerOffset(segment int) int64 {
	return l.markersOffset() + int64(segment)*markerStride
}

// SegmentOffset returns where a data segment starts in the region.
func (l *PartitionLayout) SegmentOffset(segment int) int64 {
	start := roundUp(l.markerOffset(l.Segments), segmentAlignment)
	return start + int64(segment)*int64(l.SegmentSize)
}

// ControlSize returns the bytes before the first data segment: header, event slots,
// queues and markers.
func (l *PartitionLayout) ControlSize() int64 { return l.SegmentOffset(0) }

// RegionSize returns the size of the whole region.
func (l *PartitionLayout) RegionSize() int64 {
	return roundUp(l.SegmentOffset(l.Segments), pageSize)
}

// EncodeHeader returns the header to write at the start of the region, with its
// ready word.
func (l *PartitionLayout) EncodeHeader() []byte {
	h := make([]byte, headerSize)
	putHeader(h, kindPartition, l.Subpartitions, l.FirstOrdinal, l.RegionSize())
	le := binary.LittleEndian
	le.PutUint32(h[hdrType:], l.Type)
	copy(h[hdrID:], l.ID[:])
	le.PutUint64(h[hdrEpoch:], l.Epoch)
	le.PutUint32(h[hdrSegments:], uint32(l.Segments))
	le.PutUint32(h[hdrSegmentSize:], uint32(l.SegmentSize))
	le.PutUint32(h[hdrQueueCapacity:], uint32(l.QueueCapacity))
	return h
}

// DecodePartitionHeader reads a header that somebody else may have written. It
// believes nothing: every field is checked against the layout's limits, and the
// sizes that follow from it against the size of the region. The error is
// ErrLayout with field, value and limit.
func DecodePartitionHeader(h []byte, regionSize int64) (PartitionLayout, error) {
	var l PartitionLayout
	if err := checkHeader(h, kindPartition, regionSize); err != nil {
		return l, err
	}
	le := binary.LittleEndian
	l.Type = le.Uint32(h[hdrType:])
	copy(l.ID[:], h[hdrID:])
	l.Epoch = le.Uint64(h[hdrEpoch:])
	l.Subpartitions = int(le.Uint32(h[hdrChannels:]))
	l.Segments = int(le.Uint32(h[hdrSegments:]))
	l.SegmentSize = int(le.Uint32(h[hdrSegmentSize:]))
	l.QueueCapacity = int(le.Uint32(h[hdrQueueCapacity:]))
	l.FirstOrdinal = le.Uint64(h[hdrFirstOrdinal:])
	if err := l.validate(); err != nil {
		return l, err
	}
	if l.RegionSize() != regionSize {
		return l, fmt.Errorf("region has %d bytes, its header describes %d: %w", regionSize, l.RegionSize(), ErrLayout)
	}
	return l, nil
}

// A GateLayout is the geometry of a gate region.
type GateLayout struct {
	ID       uint64
	Channels int
}

// NewGateLayout returns the layout of a gate, or ErrLayout.
func NewGateLayout(id uint64, channels int) (GateLayout, error) {
	l := GateLayout{ID: id, Channels: channels}
	return l, l.validate()
}

func (l *GateLayout) validate() error {
	if l.Channels < 1 || l.Channels > maxLayoutChannels {
		return fmt.Errorf("channels is %d, want 1 to %d: %w", l.Channels, maxLayoutChannels, ErrLayout)
	}
	return nil
}

// channelOffset returns where the words of a channel start.
func (l *GateLayout) channelOffset(channel int) int64 {
	return gateChannelsStart + int64(channel)*gateChannelStride
}

// RegionSize returns the size of the whole region.
func (l *GateLayout) RegionSize() int64 { return roundUp(l.channelOffset(l.Channels), pageSize) }

// EncodeHeader returns the header to write at the start of the region.
func (l *GateLayout) EncodeHeader() []byte {
	h := make([]byte, headerSize)
	putHeader(h, kindGate, l.Channels, 0, l.RegionSize())
	binary.LittleEndian.PutUint64(h[hdrID:], l.ID)
	return h
}

// InitialChannelWords returns the bytes to write at the returned offset before a
// channel is attached to a partition that starts at firstOrdinal.
func (l *GateLayout) InitialChannelWords(channel int, firstOrdinal uint64) (words []byte, offset int64) {
	words = make([]byte, gateChannelStride)
	le := binary.LittleEndian
	le.PutUint64(words[chanReleased:], firstOrdinal)
	le.PutUint64(words[chanPriorityReleased:], firstOrdinal)
	le.PutUint64(words[chanWant:], firstOrdinal-1)
	return words, l.channelOffset(channel)
}

// DecodeGateHeader reads and checks the header of a gate region, as
// DecodePartitionHeader does.
func DecodeGateHeader(h []byte, regionSize int64) (GateLayout, error) {
	var l GateLayout
	if err := checkHeader(h, kindGate, regionSize); err != nil {
		return l, err
	}
	le := binary.LittleEndian
	l.ID = le.Uint64(h[hdrID:])
	l.Channels = int(le.Uint32(h[hdrChannels:]))
	if err := l.validate(); err != nil {
		return l, err
	}
	if l.RegionSize() != regionSize {
		return l, fmt.Errorf("region has %d bytes, its header describes %d: %w", regionSize, l.RegionSize(), ErrLayout)
	}
	return l, nil
}

func putHeader(h []byte, kind uint32, channels int, firstOrdinal uint64, regionSize int64) {
	le := binary.LittleEndian
	le.PutUint64(h[hdrMagic:], regionMagic)
	le.PutUint32(h[hdrVersion:], LayoutVersion)
	le.PutUint32(h[hdrSize:], headerSize)
	le.PutUint64(h[hdrFeatures:], knownFeatures)
	le.PutUint32(h[hdrKind:], kind)
	le.PutUint32(h[hdrChannels:], uint32(channels))
	le.PutUint64(h[hdrFirstOrdinal:], firstOrdinal)
	le.PutUint64(h[hdrRegionSize:], uint64(regionSize))
	le.PutUint64(h[hdrReady:], regionReady)
}

func checkHeader(h []byte, kind uint32, regionSize int64) error {
	bad := func(field string, got, want uint64) error {
		return fmt.Errorf("header %s is %#x, want %#x: %w", field, got, want, ErrLayout)
	}
	if len(h) < headerSize {
		return fmt.Errorf("header of %d bytes, want %d: %w", len(h), headerSize, ErrLayout)
	}
	le := binary.LittleEndian
	if v := le.Uint64(h[hdrReady:]); v != regionReady {
		return bad("ready", v, regionReady)
	}
	if v := le.Uint64(h[hdrMagic:]); v != regionMagic {
		return bad("magic", v, regionMagic)
	}
	if v := le.Uint32(h[hdrVersion:]); v != LayoutVersion {
		return fmt.Errorf("region has layout version %d, this program reads version %d: %w", v, LayoutVersion,
			ErrLayout)
	}
	if v := le.Uint32(h[hdrSize:]); v != headerSize {
		return bad("size", uint64(v), headerSize)
	}
	if v := le.Uint64(h[hdrFeatures:]); v&^knownFeatures != 0 {
		return fmt.Errorf("region needs features %#x, this program knows %#x: %w", v, uint64(knownFeatures), ErrLayout)
	}
	if v := le.Uint32(h[hdrKind:]); v != kind {
		return bad("kind", uint64(v), uint64(kind))
	}
	if v := le.Uint64(h[hdrRegionSize:]); v != uint64(regionSize) {
		return bad("region size", v, uint64(regionSize))
	}
	return nil
}

// DoorbellSize returns the size of the doorbell object for so many bits.
func DoorbellSize(numBits int) int64 {
	words := (numBits + doorbellBitsPerWord - 1) / doorbellBitsPerWord
	return roundUp(doorbellBits+int64(words)*8, pageSize)
}

// Fixed offsets must keep 64-bit words aligned and hot words apart; a field that
// moves breaks the build here.
const (
	_ = uint(-(queueRing % lineSize))
	_ = uint(-(partParked % lineSize))
	_ = uint(-(gateParked % lineSize))
	_ = uint(-(queueWantReleased % lineSize))
	_ = uint(-(chanWant % lineSize))
	_ = uint(-(doorbellBits % lineSize))
	_ = uint(-(hdrEpoch % 8))
	_ = uint(-(hdrReady % 8))
	_ = uint(-(descriptorSize % 8))
	_ = uint(-(markerStride % 64))
	_ = uint(headerSize - hdrReady - 8)
	_ = uint(partParked - headerSize)
	_ = uint(gateChannelStride - chanWant - 8)
	_ = uint(-(partEventSlots % lineSize))
	_ = uint(-(partQueuesStart % lineSize))
	_ = uint(-(gateChannelsStart % lineSize))
	_ = uint(minQueueCapacity - eventsPerQueue)
	_ = uint(-(priorityCapacity & (priorityCapacity - 1)))
)
