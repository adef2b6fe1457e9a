package memseg

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func testLayout(t testing.TB, subpartitions, segments, segmentSize int) PartitionLayout {
	t.Helper()
	l, err := NewPartitionLayout(2, [16]byte{1, 2, 3}, 9, subpartitions, segments, segmentSize)
	require.NoError(t, err)
	return l
}

// goldenPartition is what testdata/partition_header.hex holds.
func goldenPartition(t testing.TB) PartitionLayout {
	t.Helper()
	id := [16]byte([]byte("0123456789abcdef"))
	l, err := NewPartitionLayout(0x01020304, id, 0x1112131415161718, 4, 16, 32<<10)
	require.NoError(t, err)
	l.FirstOrdinal = 0x2122232425262728
	return l
}

func goldenGate(t testing.TB) GateLayout {
	t.Helper()
	l, err := NewGateLayout(0x1112131415161718, 5)
	require.NoError(t, err)
	return l
}

// A golden file is a hexadecimal dump with a comment a line. A layout of the same
// version must not change: programs in other languages read it.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	require.NoError(t, err)
	var all []byte
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		offset, content, ok := strings.Cut(strings.TrimSpace(line), ":")
		if !ok {
			continue
		}
		b, err := hex.DecodeString(strings.ReplaceAll(content, " ", ""))
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("%03x", len(all)), offset)
		all = append(all, b...)
	}
	return all
}

func TestHeadersHaveTheBytesOfTheirVersion(t *testing.T) {
	partition, gate := goldenPartition(t), goldenGate(t)
	require.Equal(t, hex.Dump(golden(t, "partition_header.hex")), hex.Dump(partition.EncodeHeader()))
	require.Equal(t, hex.Dump(golden(t, "gate_header.hex")), hex.Dump(gate.EncodeHeader()))

	words, offset := gate.InitialChannelWords(3, 0x2122232425262728)
	require.Equal(t, hex.Dump(golden(t, "channel_words.hex")), hex.Dump(words))
	require.EqualValues(t, 1024+3*256, offset)
}

func TestHeadersDecodeToWhatWasEncoded(t *testing.T) {
	partition, gate := goldenPartition(t), goldenGate(t)
	decoded, err := DecodePartitionHeader(golden(t, "partition_header.hex"), partition.RegionSize())
	require.NoError(t, err)
	require.Equal(t, partition, decoded)
	decodedGate, err := DecodeGateHeader(golden(t, "gate_header.hex"), gate.RegionSize())
	require.NoError(t, err)
	require.Equal(t, gate, decodedGate)
}

func TestGeometryHasTheOffsetsOfItsVersion(t *testing.T) {
	l := goldenPartition(t)
	require.Equal(t, 32, l.QueueCapacity)
	const queues, stride = 1024 + 24*256, 384 + (32+8)*16
	require.EqualValues(t, stride, l.queueStride())
	require.EqualValues(t, queues, l.queueOffset(0))
	require.EqualValues(t, queues+3*stride, l.queueOffset(3))
	require.EqualValues(t, queues+4*stride, l.MarkerOffset(0))
	require.EqualValues(t, queues+4*stride+15*64, l.MarkerOffset(15))
	require.EqualValues(t, 3*4096, l.ControlSize())
	require.EqualValues(t, 3*4096+15*32768, l.SegmentOffset(15))
	require.EqualValues(t, 3*4096+16*32768, l.RegionSize())

	gate := goldenGate(t)
	require.EqualValues(t, 1024, gate.channelOffset(0))
	require.EqualValues(t, 1024+4*256, gate.channelOffset(4))
	require.EqualValues(t, 4096, gate.RegionSize())

	require.EqualValues(t, 4096, DoorbellSize(1))
	require.EqualValues(t, 4096, DoorbellSize((4096-128)*8))
	require.EqualValues(t, 8192, DoorbellSize((4096-128)*8+1))
}

// headerFields are the fields that a reader checks, with the word that the error
// names them by. The others are identity: any value is legal.
var headerFields = []struct {
	name          string
	offset, width int
	word          string
	partitionOnly bool
}{
	{"magic", hdrMagic, 8, "magic", false},
	{"version", hdrVersion, 4, "layout version", false},
	{"header size", hdrSize, 4, "header size", false},
	{"features", hdrFeatures, 8, "features", false},
	{"kind", hdrKind, 4, "kind", false},
	{"channels", hdrChannels, 4, "", false},
	{"segments", hdrSegments, 4, "segments", true},
	{"segment size", hdrSegmentSize, 4, "segment size", true},
	{"queue capacity", hdrQueueCapacity, 4, "queue capacity", true},
	{"region size", hdrRegionSize, 8, "region size", false},
	{"ready", hdrReady, 8, "ready", false},
}

func TestHeaderWithOneFieldChangedIsRefusedByName(t *testing.T) {
	partition, gate := goldenPartition(t), goldenGate(t)
	for _, field := range headerFields {
		t.Run(field.name, func(t *testing.T) {
			for _, kind := range []string{"partition", "gate"} {
				h, word := partition.EncodeHeader(), field.word
				if word == "" {
					word = "subpartitions"
				}
				decode := func(h []byte) error {
					_, err := DecodePartitionHeader(h, partition.RegionSize())
					return err
				}
				if kind == "gate" {
					if field.partitionOnly {
						continue
					}
					h = gate.EncodeHeader()
					decode = func(h []byte) error { _, err := DecodeGateHeader(h, gate.RegionSize()); return err }
					if field.word == "" {
						word = "channels"
					}
				}
				require.NoError(t, decode(h))
				bytes := h[field.offset : field.offset+field.width]
				original := slices.Clone(bytes)
				for bit := range 8 * field.width {
					copy(bytes, original)
					bytes[bit/8] ^= 1 << (bit % 8)
					err := decode(h)
					if err == nil && kind == "gate" && field.offset == hdrChannels {
						continue // another number of channels of the same last page
					}
					require.ErrorIs(t, err, ErrLayout, "%s, bit %d", kind, bit)
					// A size that is legal by itself does not fit the region.
					if !strings.Contains(err.Error(), "its header describes") {
						require.ErrorContains(t, err, word, "%s, bit %d", kind, bit)
					}
				}
				for _, b := range []byte{0, 0xff} {
					for i := range bytes {
						bytes[i] = b
					}
					if slices.Equal(bytes, original) {
						continue // no features
					}
					err := decode(h)
					require.ErrorIs(t, err, ErrLayout)
					require.ErrorContains(t, err, word, "%s, all bytes %#x", kind, b)
				}
				copy(bytes, original)
				require.NoError(t, decode(h))
			}
		})
	}
}

func TestIdentityOfAHeaderIsNotJudged(t *testing.T) {
	random := newRandom(t)
	l := goldenPartition(t)
	for range 100 {
		l.Type, l.Epoch, l.FirstOrdinal = random.Uint32(), random.Uint64(), random.Uint64()
		binary.LittleEndian.PutUint64(l.ID[:], random.Uint64())
		decoded, err := DecodePartitionHeader(l.EncodeHeader(), l.RegionSize())
		require.NoError(t, err)
		require.Equal(t, l, decoded)
	}
}

func TestHeaderOfAnotherRegionSizeOrKindIsRefused(t *testing.T) {
	partition, gate := goldenPartition(t), goldenGate(t)
	for _, size := range []int64{0, -1, partition.RegionSize() - 4096, partition.RegionSize() + 4096, math.MaxInt64} {
		_, err := DecodePartitionHeader(partition.EncodeHeader(), size)
		require.ErrorIs(t, err, ErrLayout)
		require.ErrorContains(t, err, "region size")
	}
	_, err := DecodePartitionHeader(gate.EncodeHeader(), gate.RegionSize())
	require.ErrorContains(t, err, "kind")
	_, err = DecodeGateHeader(partition.EncodeHeader(), partition.RegionSize())
	require.ErrorContains(t, err, "kind")
	for _, n := range []int{0, 1, headerSize - 1} {
		_, err = DecodePartitionHeader(partition.EncodeHeader()[:n], partition.RegionSize())
		require.ErrorIs(t, err, ErrLayout)
		_, err = DecodeGateHeader(gate.EncodeHeader()[:n], gate.RegionSize())
		require.ErrorIs(t, err, ErrLayout)
	}
}

func TestVersionMismatchNamesBothVersions(t *testing.T) {
	l := goldenPartition(t)
	h := l.EncodeHeader()
	h[hdrVersion] = 7
	_, err := DecodePartitionHeader(h, l.RegionSize())
	require.ErrorContains(t, err, "layout version 7")
	require.ErrorContains(t, err, fmt.Sprintf("reads version %d", LayoutVersion))
}

func TestImpossibleGeometryIsRefused(t *testing.T) {
	for _, row := range []struct{ subpartitions, segments, segmentSize int }{
		{0, 1, 4096},
		{-1, 1, 4096},
		{maxLayoutChannels + 1, 1, 4096},
		{1, 0, 4096},
		{1, -1, 4096},
		{1, maxLayoutSegments + 1, 4096},
		{1, 1, minLayoutSegmentSize - 1},
		{1, 1, maxLayoutSegmentSize + 1},
		{1, 1, -1},
		{math.MaxInt, math.MaxInt, math.MaxInt},
		{math.MinInt, math.MinInt, math.MinInt},
	} {
		_, err := NewPartitionLayout(2, [16]byte{}, 0, row.subpartitions, row.segments, row.segmentSize)
		require.ErrorIs(t, err, ErrLayout, "%+v", row)
	}
	for _, channels := range []int{0, -1, maxLayoutChannels + 1} {
		_, err := NewGateLayout(1, channels)
		require.ErrorIs(t, err, ErrLayout)
	}
}

// A span is a part of a region that somebody writes.
type span struct {
	name       string
	start, end int64
	alignment  int64
}

// partitionSpans lists everything in a partition region that has a place.
func partitionSpans(l *PartitionLayout) []span {
	spans := []span{
		{"header", 0, headerSize, lineSize},
		{"parked", partParked, partParked + 4, lineSize},
		{"counters", partRecords, partPoolSize + 8, lineSize},
		{"event slots", partEventSlots, partEventSlots + eventSlots*eventSlotSize, lineSize},
	}
	for i := range l.Subpartitions {
		base := l.queueOffset(i)
		at := func(name string, offset, size, alignment int64) int64 {
			spans = append(spans, span{fmt.Sprintf("%s of queue %d", name, i), base + offset, base + offset + size,
				alignment})
			return offset + size
		}
		at("cursors", queuePublished, queueBuffers+8, lineSize)
		at("wanted release and limit", queueWantReleased, queueHeldLimit+8-queueWantReleased, lineSize)
		at("priority cursor", queuePriority, 8, lineSize)
		end := at("ring", queueRing, int64(l.QueueCapacity*descriptorSize), lineSize)
		at("priority ring", end, priorityCapacity*descriptorSize, lineSize)
	}
	for i := range l.Segments {
		spans = append(spans,
			span{fmt.Sprintf("marker %d", i), l.MarkerOffset(i), l.MarkerOffset(i) + 4, markerStride},
			span{fmt.Sprintf("segment %d", i), l.SegmentOffset(i), l.SegmentOffset(i) + int64(l.SegmentSize), 1})
	}
	spans[len(spans)-2*l.Segments+1].alignment = segmentAlignment // the first segment
	return spans
}

func requireDisjoint(t *testing.T, spans []span, size int64) {
	t.Helper()
	slices.SortFunc(spans, func(a, b span) int { return int(a.start - b.start) })
	end, previous := int64(0), "the start"
	for _, s := range spans {
		if s.start < end || s.start%s.alignment != 0 {
			t.Fatalf("%s is at [%d, %d), aligned to %d; %s ends at %d", s.name, s.start, s.end, s.alignment, previous,
				end)
		}
		end, previous = s.end, s.name
	}
	require.LessOrEqual(t, end, size)
	require.Zero(t, size%pageSize)
	require.Less(t, size-end, int64(pageSize), "no page is wasted at the end")
}

func TestPlacesInARegionAreAlignedAndDoNotOverlap(t *testing.T) {
	random := newRandom(t)
	for range 200 {
		// Sizes of any magnitude, but not more spans than can be looked at.
		subpartitions := 1 + random.IntN(1<<random.IntN(10))
		segments := 1 + random.IntN(1<<random.IntN(12))
		segmentSize := minLayoutSegmentSize + random.IntN(1<<random.IntN(26))
		l := testLayout(t, subpartitions, segments, segmentSize)
		t.Logf("%+v", l)
		spans := partitionSpans(&l)
		requireDisjoint(t, spans, l.RegionSize())
		require.Equal(t, l.ControlSize(), l.SegmentOffset(0))
		require.Zero(t, l.ControlSize()%pageSize)

		decoded, err := DecodePartitionHeader(l.EncodeHeader(), l.RegionSize())
		require.NoError(t, err)
		require.Equal(t, l, decoded)

		gate, err := NewGateLayout(random.Uint64(), 1+random.IntN(1<<random.IntN(12)))
		require.NoError(t, err)
		spans = []span{{"header", 0, headerSize, lineSize}, {"parked", gateParked, gateParked + 4, lineSize},
			{"counters", gateWakeUps, gateIdleNs + 8, lineSize}}
		for i := range gate.Channels {
			base := gate.channelOffset(i)
			spans = append(spans, span{"released", base, base + chanPriorityReleased + 8, lineSize},
				span{"want", base + chanWant, base + chanWant + 8, lineSize})
		}
		end := gate.channelOffset(gate.Channels)
		requireDisjoint(t, append(spans, span{"end", end, end, lineSize}), gate.RegionSize())
	}
}

func TestLargestGeometryFitsItsIntegers(t *testing.T) {
	l := testLayout(t, maxLayoutChannels, maxLayoutSegments, maxLayoutSegmentSize)
	l.QueueCapacity = maxQueueCapacity
	require.Greater(t, l.RegionSize(), l.SegmentOffset(l.Segments-1))
	require.Greater(t, l.SegmentOffset(0), l.MarkerOffset(l.Segments-1))
	require.Greater(t, l.MarkerOffset(0), l.queueOffset(l.Subpartitions-1))
	decoded, err := DecodePartitionHeader(l.EncodeHeader(), l.RegionSize())
	require.NoError(t, err)
	require.Equal(t, l, decoded)
}

func TestQueueNamesEverySegmentWithinItsShare(t *testing.T) {
	random := newRandom(t)
	for range 1000 {
		subpartitions, segments := 1+random.IntN(1<<random.IntN(21)), 1+random.IntN(1<<random.IntN(23))
		if subpartitions > maxLayoutChannels || segments > maxLayoutSegments {
			continue
		}
		l := testLayout(t, subpartitions, segments, 4096)
		c := l.QueueCapacity
		require.Equal(t, 1, bits.OnesCount(uint(c)), "a power of two")
		require.GreaterOrEqual(t, c, minQueueCapacity)
		require.LessOrEqual(t, c, maxQueueCapacity)
		if c < segments+eventsPerQueue && c < maxQueueCapacity {
			// It cannot name all, because the queues share a budget: one size more
			// would be over it.
			require.Greater(t, 2*c*subpartitions*descriptorSize, ringBytesPerRegion)
		}
		if c > minQueueCapacity {
			require.LessOrEqual(t, c*subpartitions*descriptorSize, ringBytesPerRegion)
		}
	}
}

// What nobody uses yet costs little, be there few subpartitions or many.
func TestControlMemoryIsInProportion(t *testing.T) {
	for _, row := range []struct{ subpartitions, segments, most int }{
		{1, 2, 8 << 10}, {1, 130, 12 << 10}, {1, 1 << 20, 300 << 10}, {8, 144, 44 << 10}, {100, 300, 260 << 10},
		{1000, 8000, 800 << 10}, {10_000, 80_000, 10_000 * 800}, {32_768, 5 * 32_768, 32_768 * 800},
	} {
		l := testLayout(t, row.subpartitions, row.segments, 32<<10)
		require.LessOrEqual(t, l.MarkerOffset(0), int64(row.most), "%+v", row)
	}
	gate, err := NewGateLayout(1, 12)
	require.NoError(t, err)
	require.EqualValues(t, pageSize, gate.RegionSize())
}

func TestMarkersStayAWholeLineApart(t *testing.T) {
	l := testLayout(t, 3, 5, 100)
	region := NewHeapRegion("test", int(l.RegionSize()))
	segments := NewRegionSegments(region, &l)
	for i := range l.Segments {
		segments.Marker(i).store(Position(i + 1))
		copy(segments.Bytes(i), bytes.Repeat([]byte{byte(i + 1)}, l.SegmentSize))
		require.Equal(t, l.SegmentSize, cap(segments.Bytes(i)))
	}
	for i := range l.Segments {
		require.Equal(t, Position(i+1), segments.Marker(i).Load())
		require.Equal(t, bytes.Repeat([]byte{byte(i + 1)}, l.SegmentSize), segments.Bytes(i))
	}
}

func TestDoorbellTooLargeForItsRegionIsRefused(t *testing.T) {
	region := NewHeapRegion("test", pageSize)
	const fits = (pageSize - doorbellBits) * 8
	_, err := NewDoorbell(region, fits)
	require.NoError(t, err)
	for _, n := range []int{0, -1, fits + 1, maxLayoutChannels + 1, math.MaxInt} {
		_, err := NewDoorbell(region, n)
		require.ErrorIs(t, err, ErrLayout, "%d bits", n)
	}
}

func FuzzDecodeHeaders(f *testing.F) {
	partition, gate := goldenPartition(f), goldenGate(f)
	f.Add(partition.EncodeHeader(), partition.RegionSize())
	f.Add(gate.EncodeHeader(), gate.RegionSize())
	f.Add([]byte{}, int64(0))
	largest := testLayout(f, maxLayoutChannels, maxLayoutSegments, maxLayoutSegmentSize)
	f.Add(largest.EncodeHeader(), largest.RegionSize())
	f.Fuzz(func(t *testing.T, h []byte, regionSize int64) {
		// The mutator would not find the right size: half of the inputs get it.
		if len(h) >= headerSize && h[hdrReady-1]&1 == 0 {
			regionSize = int64(binary.LittleEndian.Uint64(h[hdrRegionSize:]))
		}
		if l, err := DecodePartitionHeader(h, regionSize); err != nil {
			require.ErrorIs(t, err, ErrLayout)
		} else {
			require.Equal(t, regionSize, l.RegionSize())
			require.LessOrEqual(t, l.SegmentOffset(l.Segments-1)+int64(l.SegmentSize), regionSize)
			require.Less(t, l.MarkerOffset(l.Segments-1), l.SegmentOffset(0))
			require.Less(t, l.queueOffset(l.Subpartitions-1), l.MarkerOffset(0))
			again, err := DecodePartitionHeader(l.EncodeHeader(), regionSize)
			require.NoError(t, err)
			require.Equal(t, l, again)
		}
		if l, err := DecodeGateHeader(h, regionSize); err != nil {
			require.ErrorIs(t, err, ErrLayout)
		} else {
			require.Equal(t, regionSize, l.RegionSize())
			require.LessOrEqual(t, l.channelOffset(l.Channels-1)+gateChannelStride, regionSize)
		}
	})
}
