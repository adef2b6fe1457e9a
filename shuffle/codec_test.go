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

func TestJSONIsReadAsItWasWrittenAndMayBeKept(t *testing.T) {
	type visit struct {
		Page string
		Seen []int
	}
	codec := shuffle.JSON[visit]{}
	wire, err := codec.Append([]byte(">"), visit{"<a>", []int{1, 2}})
	require.NoError(t, err)
	require.Equal(t, byte('>'), wire[0])
	read, err := codec.Decode(wire[1:])
	require.NoError(t, err)
	clear(wire)
	require.Equal(t, visit{"<a>", []int{1, 2}}, read)
	for _, wrong := range []string{"", "{", `{"Page": 7}`, `{} {}`} {
		_, err := codec.Decode([]byte(wrong))
		require.Error(t, err, wrong)
	}
	_, err = shuffle.JSON[func()]{}.Append(nil, func() {})
	require.Error(t, err)
}
