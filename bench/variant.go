package bench

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"shuffled/bench/results"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A Variant is what the public API can be told and other transports cannot. The
// zero value leaves everything at its default.
type Variant struct {
	PartitionType shuffle.ResultPartitionType
	// FlushTimeout is how long a record may wait for others: writer.FlushAlways,
	// writer.FlushNever, or more than 0.
	FlushTimeout time.Duration
	Via          Via
}

// A Via is the way into a partition.
type Via string

// The ways: Emit of a RecordWriter, which copies the record into shared memory,
// and Reserve and Commit of the partition itself, which have it written in place.
const (
	Emit    Via = "emit"
	Reserve Via = "reserve"
)

var vias = []Via{Emit, Reserve}

// ParseVias reads a comma-separated list.
func ParseVias(list string) ([]Via, error) { return parseNames("way", list, vias) }

// A Distribution is how several consumers share the records of a producer.
type Distribution string

// The distributions: by key, or to each consumer in turn.
const (
	Keyed      Distribution = "keyed"
	RoundRobin Distribution = "round-robin"
)

var distributions = []Distribution{Keyed, RoundRobin}

// ParseDistributions reads a comma-separated list.
func ParseDistributions(list string) ([]Distribution, error) {
	return parseNames("distribution", list, distributions)
}

// selector returns a selector for several consumers. Records are keyed unless
// they are to be dealt out in turn.
func (d Distribution) selector() writer.ChannelSelector[[]byte] {
	if d == RoundRobin {
		return writer.Rebalance[[]byte]()
	}
	return keySelector()
}

var partitionTypes = []shuffle.ResultPartitionType{shuffle.Pipelined, shuffle.PipelinedBounded}

// partitionTypeName returns the name of a type as people type it.
func partitionTypeName(t shuffle.ResultPartitionType) string {
	return strings.ToLower(strings.ReplaceAll(t.String(), "_", "-"))
}

// ParsePartitionTypes reads a comma-separated list of pipelined and
// pipelined-bounded.
func ParsePartitionTypes(list string) ([]shuffle.ResultPartitionType, error) {
	var names []string
	for _, t := range partitionTypes {
		names = append(names, partitionTypeName(t))
	}
	return parseList("partition type", list, func(name string) (shuffle.ResultPartitionType, error) {
		i := slices.Index(names, name)
		if i < 0 {
			return 0, fmt.Errorf("want some of %s", joinNames(names))
		}
		return partitionTypes[i], nil
	})
}

// ParseFlushTimeouts reads a comma-separated list: durations, 0 for every record
// at once, -1 for full buffers only.
func ParseFlushTimeouts(list string) ([]time.Duration, error) {
	return parseList("flush timeout", list, func(field string) (time.Duration, error) {
		if field == flushNever {
			return writer.FlushNever, nil
		}
		d, err := time.ParseDuration(field)
		if err != nil || d < 0 {
			return 0, errors.New("want a duration such as 100ms, 0 for every record at once, or -1 for full buffers only")
		}
		return d, nil
	})
}

// Special flush timeouts as people type them.
const (
	flushAlways = "0"
	flushNever  = "-1"
)

func formatFlushTimeout(d time.Duration) string {
	switch d {
	case writer.FlushAlways:
		return flushAlways
	case writer.FlushNever:
		return flushNever
	}
	return d.String()
}

// options returns what a RecordWriter is to be told.
func (v Variant) options() []writer.Option {
	if v == (Variant{}) {
		return nil
	}
	return []writer.Option{writer.WithBufferTimeout(v.FlushTimeout)}
}

// describe enters the variant into the settings of a measurement.
func (v Variant) describe(s *results.Settings) {
	s.PartitionType, s.FlushTimeout, s.Via = partitionTypeName(v.PartitionType), formatFlushTimeout(v.FlushTimeout),
		string(v.Via)
}
