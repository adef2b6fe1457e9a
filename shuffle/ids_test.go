package shuffle_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestPartitionIDsRoundTrip(t *testing.T) {
	id := shuffle.NewPartitionID()
	require.False(t, id.IsZero())
	require.NotEqual(t, id, shuffle.NewPartitionID())
	require.Len(t, id.String(), 32)
	parsed, err := shuffle.ParsePartitionID(id.String())
	require.NoError(t, err)
	require.Equal(t, id, parsed)
}

// It is the first half of the SHA-256 of the name. Producer and consumer derive
// it apart from each other, maybe by different versions: it must never change.
func TestNamedPartitionIDsAgree(t *testing.T) {
	require.Equal(t, "91fba0099eadb03cf5d3cc6bdf36ac45", shuffle.NamedPartitionID("job-42/map-3").String())
	require.NotEqual(t, shuffle.NamedPartitionID("job-42/map-3"), shuffle.NamedPartitionID("job-42/map-4"))
}

func TestPartitionIDsAreChecked(t *testing.T) {
	for _, s := range []string{
		"", "0", "zz", "00000000000000000000000000000000", "0102030405060708090a0b0c0d0e0f",
		"0102030405060708090a0b0c0d0e0f1011",
		" 102030405060708090a0b0c0d0e0f10", "0102030405060708090a0b0c0d0e0f1g",
	} {
		_, err := shuffle.ParsePartitionID(s)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, "%q", s)
	}
}

func TestPartitionIDIsTheSameInJSONAndText(t *testing.T) {
	id := shuffle.NamedPartitionID("job-42/map-3")
	text, err := json.Marshal(map[string]any{"partition": id})
	require.NoError(t, err)
	require.Equal(t, `{"partition":"`+id.String()+`"}`, string(text))
}
