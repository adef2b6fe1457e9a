package ipc

import (
	"testing"

	"shuffled/internal/misuse"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{
			(*Conn)(nil), (*Credentials)(nil), (*FDs)(nil), (*FieldError)(nil), (*RemoteError)(nil), (*Server)(nil),
		},
		Functions: map[string]any{
			"CheckHost": CheckHost, "CheckSocketPath": CheckSocketPath, "CommonFeatures": CommonFeatures, "DecodeError": DecodeError,
			"DecodePartitionInfo": DecodePartitionInfo, "DecodeSegments": DecodeSegments, "Dial": Dial, "EncodeError": EncodeError,
			"EncodeSegments": EncodeSegments, "LimitNames": LimitNames, "Negotiate": Negotiate, "NewConn": NewConn,
			"NewServer": NewServer, "RejectReasons": RejectReasons,
		},
		Left: map[string]string{
			"NewConnFD": "takes descriptor 0 over", "Pair": "takes nothing and makes two connections",
			"Outbox":          "is inside of clients and servers, made by its constructor only",
			"NewOutbox":       "starts a goroutine; its Conn is checked when it sends",
			"FieldError(nil)": "is no error", "RemoteError(nil)": "is no error",
		},
		Fine:   []string{"FDs.Expect", "FieldError.Unwrap", "RemoteError.Unwrap", "DecodeSegments", "DecodeError"},
		Errors: []error{shuffle.ErrInvalidArgument, shuffle.ErrClosed, shuffle.ErrProtocol},
	})
}
