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
		Left:   map[string]string{"FieldError(nil)": "is no error", "RemoteError(nil)": "is no error"},
		Rest:   "it takes descriptors over or starts goroutines; an Outbox is inside of clients and servers",
		Fine:   []string{"FDs.Expect", "FieldError.Unwrap", "RemoteError.Unwrap", "DecodeSegments", "DecodeError"},
		Errors: []error{shuffle.ErrInvalidArgument, shuffle.ErrClosed, shuffle.ErrProtocol},
	})
}
