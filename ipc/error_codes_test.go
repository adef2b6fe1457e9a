package ipc

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// exportedSentinels returns the names of the sentinels in package shuffle, from its source.
func exportedSentinels(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../shuffle/errors.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, "Err") {
			names = append(names, spec.Names[0].Name)
		}
		return true
	})
	return names
}

// codedSentinels returns the names of those that have a code.
func codedSentinels(t *testing.T) (names []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "error_codes.go", nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	ast.Inspect(file, func(node ast.Node) bool {
		row, ok := node.(*ast.CompositeLit)
		if !ok || row.Type != nil || len(row.Elts) != 2 {
			return true
		}
		names = append(names, row.Elts[1].(*ast.SelectorExpr).Sel.Name)
		return true
	})
	return names
}

func TestEverySentinelHasACode(t *testing.T) {
	names := exportedSentinels(t)
	require.Greater(t, len(names), 20)
	require.ElementsMatch(t, names, codedSentinels(t), "append what is missing to errorCodes")
}

// Codes are part of the protocol: a row of this list must never change.
func TestErrorCodesNeverChange(t *testing.T) {
	fixed := map[uint32]error{
		1: shuffle.ErrPartitionNotFound, 2: shuffle.ErrPartitionReleased, 3: shuffle.ErrPartitionExpired,
		4: shuffle.ErrPartitionFailed, 5: shuffle.ErrProducerLost, 6: shuffle.ErrAlreadyExists, 7: shuffle.ErrFenced,
		8: shuffle.ErrAlreadyConsumed, 9: shuffle.ErrPermission, 10: shuffle.ErrInsufficientBuffers,
		11: shuffle.ErrNoMemory,
		12: shuffle.ErrQuotaExceeded, 13: shuffle.ErrRecordTooLarge, 14: shuffle.ErrEventTooLarge,
		15: shuffle.ErrTooManyBuffersHeld, 16: shuffle.ErrInvalidArgument, 17: shuffle.ErrFinished,
		18: shuffle.ErrClosed,
		19: shuffle.ErrConsumerLost, 20: shuffle.ErrDaemonLost, 21: shuffle.ErrVersionMismatch, 22: shuffle.ErrProtocol,
		23: shuffle.ErrCorruptRecord, 24: shuffle.ErrDraining, 25: shuffle.ErrOutcomeUnknown,
		26: shuffle.ErrConcurrentUse,
		27: shuffle.ErrIncomplete, 28: shuffle.ErrRecordsLeft, 29: shuffle.ErrFault, 30: shuffle.ErrReleased,
	}
	seen := map[uint32]bool{}
	for _, row := range errorCodes {
		require.NotZero(t, row.code)
		require.False(t, seen[row.code], "code %d twice", row.code)
		seen[row.code] = true
		if want, ok := fixed[row.code]; ok {
			require.Same(t, want, row.sentinel, "code %d", row.code)
		}
	}
	for code := range fixed {
		require.True(t, seen[code], "code %d is gone", code)
	}
}

// overSocket sends an error from one end of a connection to the other.
func overSocket(t *testing.T, err error) error {
	t.Helper()
	a, b, pairErr := Pair()
	require.NoError(t, pairErr)
	defer a.Close()
	defer b.Close()
	require.NoError(t, a.Send(&controlpb.ServerMessage{Body: &controlpb.ServerMessage_Error{Error: EncodeError(err)}}))
	msg := &controlpb.ServerMessage{}
	_, receiveErr := b.Receive(msg)
	require.NoError(t, receiveErr)
	return DecodeError(msg.GetError())
}

func TestErrorsKeepIdentityAndTextAcrossTheSocket(t *testing.T) {
	for _, row := range errorCodes {
		sent := fmt.Errorf("partition 42: %w: try again", row.sentinel)
		got := overSocket(t, sent)
		require.EqualError(t, got, sent.Error())
		for _, other := range errorCodes {
			require.Equal(t, other.code == row.code, errors.Is(got, other.sentinel), "%v is %v", got, other.sentinel)
		}
		require.EqualError(t, overSocket(t, row.sentinel), row.sentinel.Error())
		require.ErrorIs(t, overSocket(t, overSocket(t, sent)), row.sentinel, "sent on by a third")
	}
}

func TestAnAttemptErrorCrossesTheSocketWithItsNumbers(t *testing.T) {
	id := shuffle.NewPartitionID()
	for _, sentinel := range []error{shuffle.ErrFenced, shuffle.ErrAlreadyExists, shuffle.ErrProducerLost} {
		sent := fmt.Errorf("create: %w", &shuffle.AttemptError{
			Partition: id, Attempt: shuffle.MaxAttempt - 1, Next: shuffle.MaxAttempt,
			Err: fmt.Errorf("partition 42: %w: try again", sentinel),
		})
		for _, got := range []error{overSocket(t, sent), overSocket(t, overSocket(t, sent))} {
			require.EqualError(t, got, sent.Error())
			require.ErrorIs(t, got, sentinel)
			var a *shuffle.AttemptError
			require.ErrorAs(t, got, &a)
			require.Equal(t, shuffle.AttemptError{Partition: id, Attempt: shuffle.MaxAttempt - 1,
				Next: shuffle.MaxAttempt, Err: sentinel}, *a)
		}
	}
}

func TestErrorOfNoSentinelKeepsItsText(t *testing.T) {
	got := overSocket(t, context.DeadlineExceeded)
	require.EqualError(t, got, "context deadline exceeded")
	require.NotErrorIs(t, got, context.DeadlineExceeded)
	var remote *RemoteError
	require.ErrorAs(t, got, &remote)
	require.Zero(t, remote.Code)
	for _, row := range errorCodes {
		require.NotErrorIs(t, got, row.sentinel)
	}
}

func TestErrorOfSeveralSentinelsIsTheFirstOfTheTable(t *testing.T) {
	got := overSocket(t, fmt.Errorf("%w: %w", shuffle.ErrNoMemory, shuffle.ErrPartitionFailed))
	require.ErrorIs(t, got, shuffle.ErrPartitionFailed)
	require.NotErrorIs(t, got, shuffle.ErrNoMemory)
}

func TestUnknownErrorCodeIsNamed(t *testing.T) {
	got := DecodeError(&controlpb.Error{Code: 4000, Message: "disk on fire"})
	require.EqualError(t, got, "disk on fire (error code 4000, which this version does not know)")
	var remote *RemoteError
	require.ErrorAs(t, got, &remote)
	require.Equal(t, uint32(4000), remote.Code)
	require.NoError(t, errors.Unwrap(got))
}

func TestErrorWithoutMessageHasAText(t *testing.T) {
	require.EqualError(t, DecodeError(&controlpb.Error{Code: 1}), "partition not found")
	require.EqualError(t, DecodeError(&controlpb.Error{}), "error of the peer")
	require.EqualError(t, DecodeError(&controlpb.Error{Code: 999}),
		"error of the peer (error code 999, which this version does not know)")
}

func TestNoErrorStaysNone(t *testing.T) {
	require.Nil(t, EncodeError(nil))
	require.NoError(t, DecodeError(nil))
}

func TestLongErrorMessageIsCutBetweenRunes(t *testing.T) {
	for _, test := range []struct {
		name, rune string
	}{{"1 byte", "a"}, {"2 bytes", "é"}, {"3 bytes", "€"}, {"4 bytes", "𝄞"}} {
		t.Run(test.name, func(t *testing.T) {
			for shift := range 4 {
				whole := strings.Repeat("x", shift) + strings.Repeat(test.rune, MaxErrorMessage)
				got := EncodeError(fmt.Errorf("%s: %w", whole, shuffle.ErrFenced))
				require.Equal(t, uint32(7), got.GetCode(), "the code is that of the whole error")
				require.True(t, utf8.ValidString(got.GetMessage()))
				require.LessOrEqual(t, len(got.GetMessage()), MaxErrorMessage)
				require.Greater(t, len(got.GetMessage()), MaxErrorMessage-len(test.rune)-len("…"))
				require.True(t, strings.HasPrefix(whole, strings.TrimSuffix(got.GetMessage(), "…")))
			}
		})
	}
	exact := strings.Repeat("a", MaxErrorMessage)
	require.Equal(t, exact, EncodeError(errors.New(exact)).GetMessage())
}

func TestErrorMessageThatIsNotUTF8CanBeSent(t *testing.T) {
	path := &os.PathError{Op: "open", Path: "/tmp/\xff\xfe", Err: shuffle.ErrPermission}
	encoded := EncodeError(path)
	_, err := proto.Marshal(encoded)
	require.NoError(t, err)
	require.Equal(t, "open /tmp/\uFFFD: permission denied", encoded.GetMessage())
}

func TestTextOfAPeerIsShownEscaped(t *testing.T) {
	err := DecodeError(&controlpb.Error{Code: 4, Message: "partition failed: boom\x1b[2J\nüber\u009b"})
	require.EqualError(t, err, `partition failed: boom\x1b[2J\nüber\u009b`)
	require.ErrorIs(t, err, shuffle.ErrPartitionFailed)
}
