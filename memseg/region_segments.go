package memseg

// RegionSegments finds the data segments of a partition's region and their markers,
// where they lie worked out once.
type RegionSegments struct {
	region      *Region
	mem         []byte // from the first segment on
	markers     int    // offset of the first marker
	segmentSize int
}

// NewRegionSegments returns the segments of a region that l was checked against.
func NewRegionSegments(region *Region, l *PartitionLayout) RegionSegments {
	return RegionSegments{
		region: region, mem: region.Bytes()[l.SegmentOffset(0):], markers: int(l.markersOffset()),
		segmentSize: l.SegmentSize,
	}
}

// Marker returns the position marker of a segment.
// writer: producer. readers: consumers, daemon.
func (s RegionSegments) Marker(segment int) PositionMarker {
	return PositionMarker{s.region.Word32(s.markers + segment*markerStride)}
}

// Bytes returns the memory of a segment.
func (s RegionSegments) Bytes(segment int) []byte {
	start := segment * s.segmentSize
	return s.mem[start : start+s.segmentSize : start+s.segmentSize]
}
