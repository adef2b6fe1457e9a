package protocodec_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"shuffled/shuffle"
	"shuffled/shuffle/protocodec"
)

type codec = protocodec.Messages[*wrapperspb.StringValue]

func TestMessageIsReadAsItWasWrittenAndMayBeKept(t *testing.T) {
	for _, text := range []string{"", "hello"} {
		wire, err := codec{}.Append([]byte(">"), wrapperspb.String(text))
		require.NoError(t, err)
		require.Equal(t, byte('>'), wire[0])
		m, err := codec{}.Decode(wire[1:])
		require.NoError(t, err)
		clear(wire)
		require.Equal(t, text, m.GetValue())
	}
}

func TestWhatIsNoMessageIsAnError(t *testing.T) {
	_, err := codec{}.Append(nil, nil)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	_, err = codec{}.Append(nil, wrapperspb.String("\xff"))
	require.Error(t, err)
	_, err = codec{}.Decode([]byte("\xff"))
	require.Error(t, err)
	_, err = protocodec.Messages[proto.Message]{}.Append(nil, nil)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	_, err = protocodec.Messages[proto.Message]{}.Decode(nil)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
}
