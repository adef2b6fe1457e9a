package ipc

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"

	"shuffled/ipc/controlpb"
	"shuffled/shuffle"
)

// FuzzReceive sends any packet to a receiver of each message: it gets a message
// that survives another trip, or an error of the protocol.
func FuzzReceive(f *testing.F) {
	// The seeds are messages in text form, so that they can be read and changed.
	paths, err := filepath.Glob("testdata/messages/*.txtpb")
	require.NoError(f, err)
	require.NotEmpty(f, paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(f, err)
		var msg proto.Message = &controlpb.ClientMessage{}
		if strings.HasPrefix(filepath.Base(path), "server") {
			msg = &controlpb.ServerMessage{}
		}
		require.NoError(f, prototext.Unmarshal(text, msg), path)
		packet, err := proto.Marshal(msg)
		require.NoError(f, err)
		f.Add(packet)
		f.Add(packet[:len(packet)/2])
	}
	f.Add([]byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Add([]byte{0x12, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x00})
	f.Add(make([]byte, MaxMessageSize+1))
	descriptors := controlpb.File_shuffled_control_v1_control_proto.Messages()

	f.Fuzz(func(t *testing.T, packet []byte) {
		if len(packet) > MaxMessageSize+10 {
			packet = packet[:MaxMessageSize+10]
		}
		for i := range descriptors.Len() {
			messageType, err := protoregistry.GlobalTypes.FindMessageByName(descriptors.Get(i).FullName())
			require.NoError(t, err)
			msg := messageType.New().Interface()
			c, peer := newRawPair(t)
			require.NoError(t, unix.Sendto(peer, packet, 0, nil))
			_, err = c.Receive(msg)
			require.NoError(t, c.Close())
			require.NoError(t, unix.Close(peer))
			switch {
			case len(packet) == 0:
				require.Equal(t, io.EOF, err)
			case len(packet) > MaxMessageSize:
				require.ErrorIs(t, err, shuffle.ErrProtocol)
			case err == nil:
				requireSurvives(t, msg)
			case !errors.Is(err, shuffle.ErrProtocol):
				t.Fatalf("%s: %v", MessageName(msg), err)
			}
		}
	})
}

// requireSurvives encodes a message that was received and decodes it again, and
// its parts that this package decodes further.
func requireSurvives(t *testing.T, msg proto.Message) {
	t.Helper()
	packet, err := proto.Marshal(msg)
	require.NoError(t, err)
	again := msg.ProtoReflect().New().Interface()
	require.NoError(t, proto.Unmarshal(packet, again))
	requireMessage(t, msg, again)

	const limit = 4096
	switch m := msg.(type) {
	case *controlpb.Error:
		require.NotEmpty(t, DecodeError(m).Error())
	case *controlpb.SegmentsReturned:
		segments, err := DecodeSegments("segments", m.GetSegments(), limit)
		if err != nil {
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			return
		}
		require.LessOrEqual(t, len(segments), limit)
		decoded, err := DecodeSegments("segments", EncodeSegments(segments), limit)
		require.NoError(t, err)
		require.Equal(t, segments, decoded)
	case *controlpb.Hello:
		version, err := Negotiate(m.GetMinVersion(), m.GetMaxVersion(), 3, 7)
		if err == nil {
			require.LessOrEqual(t, m.GetMinVersion(), version)
			require.GreaterOrEqual(t, m.GetMaxVersion(), version)
		}
	}
}
