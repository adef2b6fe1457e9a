package shuffle_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestEventsOnTheWire(t *testing.T) {
	for _, row := range []struct {
		event shuffle.Event
		typ   memseg.DataType
		wire  string
	}{
		{shuffle.EndOfPartition{}, memseg.EndOfPartition, "00000000"},
		{shuffle.CustomEvent{}, memseg.EventBuffer, "00000003" + "0000"},
		{shuffle.CustomEvent{Name: "ab", Body: []byte{0xff, 0}}, memseg.EventBuffer,
			"00000003" + "0002" + "6162" + "ff00"},
		{shuffle.CustomEvent{Name: "a", Priority: true}, memseg.PrioritizedEventBuffer, "00000003" + "0001" + "61"},
		{shuffle.CustomEvent{Body: []byte("b")}, memseg.EventBuffer, "00000003" + "0000" + "62"},
	} {
		require.Equal(t, row.typ, row.event.DataType())
		wire, err := shuffle.EncodeEvent(row.event)
		require.NoError(t, err)
		require.Equal(t, row.wire, hex.EncodeToString(wire))
		decoded, err := shuffle.DecodeEvent(wire, row.typ)
		require.NoError(t, err)
		require.Equal(t, row.event, decoded)
	}
}

func TestDecodedEventIsACopy(t *testing.T) {
	wire, err := shuffle.EncodeEvent(shuffle.CustomEvent{Name: "name", Body: []byte("body")})
	require.NoError(t, err)
	decoded, err := shuffle.DecodeEvent(wire, memseg.EventBuffer)
	require.NoError(t, err)
	clear(wire)
	require.Equal(t, shuffle.CustomEvent{Name: "name", Body: []byte("body")}, decoded)
}

func TestNoEventIsNotEncoded(t *testing.T) {
	_, err := shuffle.EncodeEvent(nil)
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
}

func TestEventMustFitItsSlot(t *testing.T) {
	for _, row := range []struct {
		name, body int
		fits       bool
	}{
		{0, memseg.EventSlotSize - 6, true},
		{0, memseg.EventSlotSize - 5, false},
		{memseg.EventSlotSize - 6, 0, true},
		{memseg.EventSlotSize - 5, 0, false},
		{100, 151, false},
		{1 << 17, 0, false}, // the length of the name would not fit its field either
	} {
		wire, err := shuffle.EncodeEvent(shuffle.CustomEvent{Name: strings.Repeat("n", row.name),
			Body: make([]byte, row.body)})
		if row.fits {
			require.NoError(t, err)
			require.Len(t, wire, memseg.EventSlotSize)
			continue
		}
		require.ErrorIs(t, err, shuffle.ErrEventTooLarge)
		require.Less(t, len(err.Error()), 300, "a long name does not flood the message")
	}
}

func TestDecodeEventRefusesWhatItCannotRead(t *testing.T) {
	for _, row := range []struct{ wire, message string }{
		{"", "incomplete event of 0 bytes"},
		{"000000", "incomplete event of 3 bytes"},
		{"00000001", "code 1 is unknown"},
		{"00000007" + "00000000", "code 7 is unknown"},
		{"ffffffff", "code 4294967295 is unknown"},
		{"00000003", "custom event of 4 bytes, want at least 6"},
		{"0000000300", "custom event of 5 bytes, want at least 6"},
		{"00000003" + "0001", "name of 1 bytes in a body of 2"},
		{"00000003" + "ffff" + "61", "name of 65535 bytes in a body of 3"},
	} {
		wire, err := hex.DecodeString(row.wire)
		require.NoError(t, err)
		_, err = shuffle.DecodeEvent(wire, memseg.EventBuffer)
		require.ErrorIs(t, err, shuffle.ErrProtocol)
		require.ErrorContains(t, err, row.message)
	}
}

func TestDecodeEventToleratesBytesBehindTheBody(t *testing.T) {
	decoded, err := shuffle.DecodeEvent([]byte{0, 0, 0, 0, 0}, memseg.EndOfPartition)
	require.NoError(t, err)
	require.Equal(t, shuffle.EndOfPartition{}, decoded)
}

func FuzzDecodeEvent(f *testing.F) {
	for _, e := range []shuffle.Event{shuffle.EndOfPartition{},
		shuffle.CustomEvent{Name: "name", Body: []byte("body")}} {
		wire, err := shuffle.EncodeEvent(e)
		require.NoError(f, err)
		f.Add(wire, byte(e.DataType()))
	}
	f.Add([]byte{0, 0, 0, 3, 0xff, 0xff}, byte(0))
	f.Fuzz(func(t *testing.T, wire []byte, typ byte) {
		decoded, err := shuffle.DecodeEvent(wire, memseg.DataType(typ))
		if err != nil {
			require.ErrorIs(t, err, shuffle.ErrProtocol)
			return
		}
		again, err := shuffle.EncodeEvent(decoded)
		if len(wire) > memseg.EventSlotSize {
			return // no slot holds it
		}
		require.NoError(t, err)
		require.Equal(t, wire[:len(again)], again)
	})
}

// Whoever looks at the event and whoever looks at its type come to the same end.
func TestEndIsQueuedAsTheEndAndNothingElseIs(t *testing.T) {
	end, err := shuffle.EncodeEvent(shuffle.EndOfPartition{})
	require.NoError(t, err)
	custom, err := shuffle.EncodeEvent(shuffle.CustomEvent{Name: "end"})
	require.NoError(t, err)
	_, err = shuffle.DecodeEvent(end, memseg.EventBuffer)
	require.ErrorIs(t, err, shuffle.ErrProtocol)
	_, err = shuffle.DecodeEvent(custom, memseg.EndOfPartition)
	require.ErrorIs(t, err, shuffle.ErrProtocol)
}
