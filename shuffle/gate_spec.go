package shuffle

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// DefaultInputTimeout is how long an input waits if the spec does not say.
const DefaultInputTimeout = 10 * time.Second

// An Input is one subpartition that a gate reads.
type Input struct {
	// Partition is the id of the partition that is read. Zero is that of its Name, see
	// NamedPartitionID; one of the two is required.
	Partition    PartitionID
	Subpartition int
	// Name is what errors call the partition; at most MaxNameLength bytes of UTF-8. Beside
	// a Partition it has no part in finding it.
	Name string
	// Owner is the uid whose partition is read. Nil is this process's own: a
	// partition that another user has created under the same id is never taken for
	// it. A user who reads those of others must name them.
	Owner *uint32
	// MinAttempt is the oldest attempt that is read. Older ones, whether there or
	// ended, are passed over, and the input waits for a newer one until the gate's
	// Timeout. A consumer that restarts after an attempt has failed sets one more
	// than that (see AttemptError and docs/recovery.md).
	MinAttempt uint32
	// ExactAttempt reads MinAttempt and no newer one: if there is one, the channel
	// fails with ErrFenced. It is for consumers whose own attempt has the
	// same number, so that one left over takes nothing from its successor.
	ExactAttempt bool
	// Token is shown to the daemon; a partition that was created with the same
	// one may then be read by any user.
	Token string
}

// A GateSpec describes an input gate to open.
type GateSpec struct {
	// Inputs become the channels of the gate, in their order; 1 to MaxInputs;
	// the daemon may have a lower limit.
	Inputs []Input
	// Name is shown to operators; at most MaxNameLength bytes of UTF-8.
	Name string
	// Timeout is how long a partition that does not exist may take to appear.
	// After it the channel fails with ErrPartitionNotFound. Zero is
	// DefaultInputTimeout.
	Timeout time.Duration
	// MaxRecordLength is the longest record, in bytes, that a loop over Records
	// takes: its channel fails with ErrRecordTooLarge before a longer one is
	// gathered. A record that spans buffers takes as much memory as has arrived of it,
	// and twice its length for a moment at its end. Zero is MaxRecordLength.
	MaxRecordLength int
	// CopyRecords has a loop over Records copy each buffer before it looks at the
	// records in it. A codec then reads memory that no producer can change under it;
	// records are still valid until the next step of the loop only. Set it if
	// producers are not trusted and the codec checks bytes before it uses them.
	CopyRecords bool
}

// WithDefaults returns the spec with its zero fields filled in.
func (s GateSpec) WithDefaults() GateSpec {
	if s.Timeout == 0 {
		s.Timeout = DefaultInputTimeout
	}
	if s.MaxRecordLength == 0 {
		s.MaxRecordLength = MaxRecordLength
	}
	isByName := func(in Input) bool { return in.Partition.IsZero() && in.Name != "" }
	if slices.ContainsFunc(s.Inputs, isByName) {
		s.Inputs = slices.Clone(s.Inputs) // they are the caller's
		for i, in := range s.Inputs {
			if isByName(in) {
				s.Inputs[i].Partition = NamedPartitionID(in.Name)
			}
		}
	}
	return s
}

// Validate returns ErrInvalidArgument with the field, its value and its
// range.
func (s GateSpec) Validate() error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("gate spec: "+format+": %w", append(args, ErrInvalidArgument)...)
	}
	switch {
	case len(s.Inputs) < 1 || len(s.Inputs) > MaxInputs:
		return invalid("%d Inputs, want 1 to %d", len(s.Inputs), MaxInputs)
	case len(s.Name) > MaxNameLength || !utf8.ValidString(s.Name):
		return invalid("Name of %d bytes, want at most %d bytes of UTF-8", len(s.Name), MaxNameLength)
	case s.Timeout < 0 || s.Timeout > MaxInputTimeout:
		return invalid("Timeout is %v, want 0 to %v", s.Timeout, MaxInputTimeout)
	case s.MaxRecordLength < 0 || s.MaxRecordLength > MaxRecordLength:
		return invalid("MaxRecordLength is %d, want 0 to %d", s.MaxRecordLength, MaxRecordLength)
	}
	for i, in := range s.Inputs {
		switch {
		case in.Partition.IsZero():
			return invalid("neither Inputs[%d].Partition nor its Name is set", i)
		case in.Subpartition < 0 || in.Subpartition >= MaxSubpartitions:
			return invalid("Inputs[%d].Subpartition is %d, want 0 to %d", i, in.Subpartition, MaxSubpartitions-1)
		case len(in.Name) > MaxNameLength || !utf8.ValidString(in.Name):
			return invalid("Inputs[%d].Name of %d bytes, want at most %d bytes of UTF-8", i, len(in.Name),
				MaxNameLength)
		case len(in.Token) > MaxTokenLength || !utf8.ValidString(in.Token):
			return invalid("Inputs[%d].Token of %d bytes, want at most %d bytes of UTF-8", i, len(in.Token),
				MaxTokenLength)
		}
	}
	return nil
}
