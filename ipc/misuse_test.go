package ipc

import (
	"testing"

	"shuffled/internal/test/misuse"
	"shuffled/shuffle"
)

func TestNothingIsRefusedByName(t *testing.T) {
	misuse.Check(t, misuse.Package{
		Types: []any{(*Conn)(nil), (*Credentials)(nil), (*FDs)(nil), (*RemoteError)(nil)},
		Functions: map[string]any{
			"CheckSocketPath": CheckSocketPath, "CommonFeatures": CommonFeatures, "DecodeError": DecodeError,
			"DecodePartitionID": DecodePartitionID, "DecodePartitionInfo": DecodePartitionInfo,
			"DecodeSegments": DecodeSegments, "Dial": Dial, "EncodeError": EncodeError,
			"EncodeSegments": EncodeSegments, "Negotiate": Negotiate, "NewConn": NewConn,
		},
		Left:   map[string]string{"RemoteError(nil)": "is no error"},
		Rest:   "it takes descriptors over or starts goroutines; an Outbox is inside of clients and servers",
		Fine:   []string{"FDs.Expect", "RemoteError.Unwrap", "DecodeSegments", "DecodeError"},
		Errors: []error{shuffle.ErrInvalidArgument, shuffle.ErrClosed, shuffle.ErrProtocol},
	})
}
