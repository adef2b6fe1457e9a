package shuffle

import (
	"fmt"
	"strconv"
	"time"
	"unicode/utf8"
)

// Limits of a partition that follow from the region layout and the protocol.
const (
	// MaxSubpartitions is the largest number of subpartitions of one partition.
	MaxSubpartitions = 32768
	// MaxNameLength is the longest display name of a partition, in bytes.
	MaxNameLength = 128
	// MaxTokenLength is the longest access token, in bytes.
	MaxTokenLength = 64
)

// ConsumerLostPolicy says what a producer does when a consumer goes away before
// the end of its subpartition.
type ConsumerLostPolicy uint8

const (
	// FailOnConsumerLost makes the producer's writes return ErrConsumerLost.
	FailOnConsumerLost ConsumerLostPolicy = 0
	// DiscardOnConsumerLost drops what is written to that subpartition.
	DiscardOnConsumerLost ConsumerLostPolicy = 1
)

// Limits of a gate that follow from its region and the protocol.
const (
	// MaxInputs is the largest number of inputs of one gate.
	MaxInputs = 1 << 20
	// MaxInputTimeout is the longest time that an input may wait for its partition.
	MaxInputTimeout = 30 * 24 * time.Hour
)

// A PartitionSpec describes a result partition to create. The zero value of
// every field but Subpartitions is a usable default, once ID or Name is set.
type PartitionSpec struct {
	// ID tells the partition from others of the user who creates it. Zero is that of
	// its Name, see NamedPartitionID; one of the two is required.
	ID PartitionID
	// Attempt counts the executions that produce this partition, per user. An
	// attempt can be created only if it is newer than every attempt of the same
	// user that has ended. One that is newer than an attempt that is still produced
	// takes its place: the older one ends with ErrFenced.
	Attempt uint32
	// Replace lets the attempt take the place of an older one also if that has
	// finished and waits for its consumers.
	Replace bool
	// Name is shown to operators and in errors; at most MaxNameLength bytes of UTF-8. If
	// ID is zero it is what consumers find the partition by.
	Name string
	// Type defaults to PipelinedBounded.
	Type ResultPartitionType
	// Subpartitions is the number of consumers, 1 to MaxSubpartitions.
	Subpartitions int

	// BuffersPerChannel and FloatingBuffers bound the pool, in segments:
	// required is Subpartitions+1, the maximum of a bounded type is
	// Subpartitions*BuffersPerChannel+FloatingBuffers. Zero selects the daemon's
	// defaults: 2, and a floating share of some MiB (see docs/architecture.md).
	BuffersPerChannel int
	FloatingBuffers   int
	// MaxBuffersPerChannel is how many buffers of a subpartition may be unreleased
	// when a record for it begins: with more, the writer waits for that consumer, and
	// meanwhile the others have the pool to themselves. A record that was begun may
	// end. Buffers that are broadcast count for each subpartition. A consumer whose
	// user keeps that many buffers, or holds back that many behind one that it keeps,
	// stops its producer and is told so, ErrTooManyBuffersHeld. Zero means no such limit.
	MaxBuffersPerChannel int

	// OnConsumerLost defaults to FailOnConsumerLost.
	OnConsumerLost ConsumerLostPolicy

	// AllowedUIDs and AllowedGIDs may read the partition beside its creator.
	AllowedUIDs []uint32
	AllowedGIDs []uint32
	// Token, when set, lets whoever shows it read the partition.
	Token string
}

// Label names the partition in errors and logs: its name, if it has one, and its
// id. A name is quoted, so whatever bytes it has are fit for a terminal.
func (s *PartitionSpec) Label() string {
	if s == nil {
		return PartitionID{}.String()
	}
	if s.Name == "" {
		return s.ID.String()
	}
	return strconv.QuoteToGraphic(s.Name) + " (" + s.ID.String() + ")"
}

// WithDefaults returns the spec with its zero fields filled in that do not
// depend on the daemon.
func (s PartitionSpec) WithDefaults() PartitionSpec {
	if s.Type == 0 {
		s.Type = PipelinedBounded
	}
	if s.ID.IsZero() && s.Name != "" {
		s.ID = NamedPartitionID(s.Name)
	}
	return s
}

// Validate returns ErrInvalidArgument with the field, its value and its range.
func (s PartitionSpec) Validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("partition spec: "+format+": %w", append(args, ErrInvalidArgument)...)
	}
	switch {
	case s.ID.IsZero():
		return invalid("neither ID nor Name is set")
	case s.Subpartitions < 1 || s.Subpartitions > MaxSubpartitions:
		return invalid("Subpartitions is %d, want 1 to %d", s.Subpartitions, MaxSubpartitions)
	case len(s.Name) > MaxNameLength || !utf8.ValidString(s.Name):
		return invalid("Name of %d bytes, want at most %d bytes of UTF-8", len(s.Name), MaxNameLength)
	case len(s.Token) > MaxTokenLength || !utf8.ValidString(s.Token):
		return invalid("Token of %d bytes, want at most %d bytes of UTF-8", len(s.Token), MaxTokenLength)
	case s.BuffersPerChannel < 0 || s.BuffersPerChannel > 1<<20:
		return invalid("BuffersPerChannel is %d, want 0 to %d", s.BuffersPerChannel, 1<<20)
	case s.FloatingBuffers < 0 || s.FloatingBuffers > 1<<20:
		return invalid("FloatingBuffers is %d, want 0 to %d", s.FloatingBuffers, 1<<20)
	case s.MaxBuffersPerChannel < 0:
		return invalid("MaxBuffersPerChannel is %d, want 0 or more", s.MaxBuffersPerChannel)
	case s.OnConsumerLost > DiscardOnConsumerLost:
		return invalid("OnConsumerLost is %d, want 0 or 1", s.OnConsumerLost)
	case len(s.AllowedUIDs)+len(s.AllowedGIDs) > 256:
		return invalid("%d allowed uids and gids, want at most 256", len(s.AllowedUIDs)+len(s.AllowedGIDs))
	}
	return s.Type.Validate()
}
