package memseg

// ChannelWords are the words of one channel in a gate region.
// writer: consumer. readers: producer, daemon.
type ChannelWords struct {
	// Released counts the elements that the consumer is done with.
	Released *Word
	// PriorityReleased counts the priority events it is done with.
	PriorityReleased *Word
	// Want is the stream position beyond which the consumer asks to be woken.
	Want *Word
	// Parked is not 0 while the gate sleeps; one word for all its channels.
	Parked *Word32
}

// NewChannelWords returns the words of a channel of a gate whose header was
// checked against the region.
func NewChannelWords(region *Region, l *GateLayout, channel int) ChannelWords {
	base := int(l.channelOffset(channel))
	return ChannelWords{
		Released:         region.Word(base + chanReleased),
		PriorityReleased: region.Word(base + chanPriorityReleased),
		Want:             region.Word(base + chanWant),
		Parked:           region.Word32(gateParked),
	}
}

// PartitionWords are the words of a partition region outside its queues.
// writer: producer. readers: consumers, daemon.
type PartitionWords struct {
	// Parked is not 0 while the producer sleeps on its doorbell.
	Parked *Word32
	// Records, BackPressuredNs, IdleNs and WakeUps are counters, BackPressuredNs that
	// of a Stopwatch; PoolSize is the present size of the pool in segments.
	Records, BackPressuredNs, IdleNs, WakeUps, PoolSize *Word
}

// NewPartitionWords returns the words of a partition region.
func NewPartitionWords(region *Region) PartitionWords {
	return PartitionWords{
		Parked:          region.Word32(partParked),
		Records:         region.Word(partRecords),
		BackPressuredNs: region.Word(partBackPressuredNs),
		IdleNs:          region.Word(partIdleNs),
		WakeUps:         region.Word(partWakeUps),
		PoolSize:        region.Word(partPoolSize),
	}
}

// GateWords are the words of a gate region outside its channels.
// writer: consumer. readers: producers, daemon.
type GateWords struct {
	// Parked is not 0 while the gate sleeps on its doorbell.
	Parked *Word32
	// WakeUps and IdleNs are counters, IdleNs that of a Stopwatch.
	WakeUps, IdleNs *Word
}

// NewGateWords returns the words of a gate region.
func NewGateWords(region *Region) GateWords {
	return GateWords{
		Parked:  region.Word32(gateParked),
		WakeUps: region.Word(gateWakeUps),
		IdleNs:  region.Word(gateIdleNs),
	}
}

// MarkerOffset returns where the marker of a segment stands, for committing its
// page together with the segment.
func (l *PartitionLayout) MarkerOffset(segment int) int64 { return l.markerOffset(segment) }
