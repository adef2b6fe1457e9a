package ipc

import (
	"errors"
	"fmt"

	"shuffled/internal/foreigntext"
	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// MaxErrorMessage bounds the message of an error on the socket, in bytes.
const MaxErrorMessage = 4096

// errorCodes gives each sentinel of package shuffle its number on the socket.
// Rows are only ever appended: a number keeps its meaning for good, since peers
// of other versions and languages know it. 0 is an error of no sentinel.
var errorCodes = []struct {
	code     uint32
	sentinel error
}{
	{1, shuffle.ErrPartitionNotFound},
	{2, shuffle.ErrPartitionReleased},
	{3, shuffle.ErrPartitionExpired},
	{4, shuffle.ErrPartitionFailed},
	{5, shuffle.ErrProducerLost},
	{6, shuffle.ErrAlreadyExists},
	{7, shuffle.ErrFenced},
	{8, shuffle.ErrAlreadyConsumed},
	{9, shuffle.ErrPermission},
	{10, shuffle.ErrInsufficientBuffers},
	{11, shuffle.ErrNoMemory},
	{12, shuffle.ErrQuotaExceeded},
	{13, shuffle.ErrRecordTooLarge},
	{14, shuffle.ErrEventTooLarge},
	{15, shuffle.ErrTooManyBuffersHeld},
	{16, shuffle.ErrInvalidArgument},
	{17, shuffle.ErrFinished},
	{18, shuffle.ErrClosed},
	{19, shuffle.ErrConsumerLost},
	{20, shuffle.ErrDaemonLost},
	{21, shuffle.ErrVersionMismatch},
	{22, shuffle.ErrProtocol},
	{23, shuffle.ErrCorruptRecord},
	{24, shuffle.ErrDraining},
	{25, shuffle.ErrOutcomeUnknown},
	{26, shuffle.ErrConcurrentUse},
	{27, shuffle.ErrIncomplete},
	{28, shuffle.ErrRecordsLeft},
	{29, shuffle.ErrFault},
	{30, shuffle.ErrReleased},
}

// A RemoteError is an error that the peer has sent. It unwraps to the sentinel
// of package shuffle that its code stands for, if this build knows the code; with
// a *shuffle.AttemptError before it, if it is about an attempt of a partition.
type RemoteError struct {
	// Code is the number on the socket, 0 for an error of no sentinel.
	Code uint32
	// Message is the peer's own text, the sentinel's included. It may hold anything.
	Message string

	sentinel error
	attempt  *shuffle.AttemptError // around sentinel, or nil
}

// Error returns the peer's message, what is not graphic in it escaped, and the code if
// this build does not know it.
func (e *RemoteError) Error() string {
	switch {
	case e.Code != 0 && e.sentinel == nil:
		return fmt.Sprintf("%s (error code %d, which this version does not know)", e.text("error of the peer"), e.Code)
	case e.sentinel != nil:
		return e.text(e.sentinel.Error())
	}
	return e.text("error of the peer")
}

// Unwrap returns the error about an attempt, or else the sentinel, or nil.
func (e *RemoteError) Unwrap() error {
	if e.attempt != nil {
		return e.attempt
	}
	return e.sentinel
}

// text returns the message, or what stands in for an empty one.
func (e *RemoteError) text(empty string) string {
	if e.Message == "" {
		return empty
	}
	return foreigntext.Graphic(e.Message)
}

// EncodeError writes an error for the socket: the code of the sentinel that
// errors.Is finds in it (the first of the table if there are several, 0 if there
// is none) and its message, in valid UTF-8 and cut at 4 KiB. A nil error is nil.
func EncodeError(err error) *controlpb.Error {
	if err == nil {
		return nil
	}
	encoded := &controlpb.Error{Message: foreigntext.Cut(err.Error(), MaxErrorMessage)}
	for _, row := range errorCodes {
		if errors.Is(err, row.sentinel) {
			encoded.Code = row.code
			break
		}
	}
	if a := (*shuffle.AttemptError)(nil); errors.As(err, &a) {
		encoded.AttemptError = &controlpb.AttemptError{PartitionId: a.Partition[:], Attempt: a.Attempt,
			NextAttempt: a.Next}
	}
	return encoded
}

// DecodeError reads an error that EncodeError wrote, as a *RemoteError whose
// text is the peer's message. A code that this build does not know is part of
// the text and matches no sentinel. A nil message is a nil error.
func DecodeError(encoded *controlpb.Error) error {
	if encoded == nil {
		return nil
	}
	decoded := &RemoteError{Code: encoded.GetCode(), Message: encoded.GetMessage()}
	for _, row := range errorCodes {
		if row.code == decoded.Code {
			decoded.sentinel = row.sentinel
			break
		}
	}
	if a := encoded.GetAttemptError(); a != nil && decoded.sentinel != nil {
		decoded.attempt = &shuffle.AttemptError{Attempt: a.GetAttempt(), Next: a.GetNextAttempt(),
			Err: decoded.sentinel}
		copy(decoded.attempt.Partition[:], a.GetPartitionId())
	}
	return decoded
}
