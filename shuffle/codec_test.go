package shuffle_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestBytesAreReadInPlaceAndStringsAreCopied(t *testing.T) {
	for _, text := range []string{"", "x", "some text"} {
		require.Equal(t, len(text), shuffle.Bytes{}.Size([]byte(text)))
		require.Equal(t, len(text), shuffle.Strings{}.Size(text))
		wire := shuffle.Bytes{}.Append([]byte(">"), []byte(text))
		require.Equal(t, ">"+text, string(wire))
		require.Equal(t, wire, shuffle.Strings{}.Append([]byte(">"), text))
	}
	wire := []byte("some text")
	inPlace, err := shuffle.Bytes{}.Decode(wire)
	require.NoError(t, err)
	copied, err := shuffle.Strings{}.Decode(wire)
	require.NoError(t, err)
	clear(wire)
	require.Equal(t, wire, inPlace)
	require.Same(t, &wire[0], &inPlace[0])
	require.Equal(t, "some text", copied)
}
