package gate_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/gate"
	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
)

// takeMemory makes all of a partition zeros, as the daemon does for an operator.
func takeMemory(link *linktest.Link) { clear(link.Region().Bytes()) }

// refusing is a codec of strings that takes no zeros: it has an error or panics.
type refusing struct {
	shuffle.Strings
	panics bool
}

func (r refusing) Decode(src []byte) (string, error) {
	if bytes.IndexByte(src, 0) >= 0 {
		if r.panics {
			panic("zeros")
		}
		return "", errors.New("zeros")
	}
	return string(src), nil
}

// rangeOver gives the records of one loop to body, until one of them has an error.
func rangeOver[T string | []byte](codec shuffle.Codec[T]) func(g *gate.InputGate,
	body func(record string) error) error {
	return func(g *gate.InputGate, body func(record string) error) error {
		for record, err := range reader.Records(context.Background(), g, codec) {
			if err != nil {
				return err
			}
			if err := body(string(record)); err != nil {
				return err
			}
		}
		return nil
	}
}

// What follows the record at which the memory goes is an error and no record, however
// the records are read.
func TestMemoryThatWasTakenAwayHasNoRecords(t *testing.T) {
	const count, at = 50, 20
	for name, row := range map[string]struct {
		read   func(g *gate.InputGate, body func(record string) error) error
		copies bool
	}{
		"bytes":   {read: rangeOver(shuffle.Bytes{})},
		"strings": {read: rangeOver(shuffle.Strings{})},
		"copies":  {read: rangeOver(shuffle.Bytes{}), copies: true},
	} {
		t.Run(name, func(t *testing.T) {
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 16,
				SegmentSize: 4096})
			g := linktest.NewGate(t, linktest.Mapped, 1, func(s *shuffle.GateSpec) { s.CopyRecords = row.copies })
			g.Attach(0, link, 0)
			records := numbered(count, 40)
			emitStrings(t, link, records)
			got := 0
			body := func(record string) error {
				require.Equal(t, records[got], record)
				if got++; got == at {
					takeMemory(link)
				}
				return nil
			}
			err := row.read(g.InputGate, body)
			require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
			require.ErrorContains(t, err, "its memory was taken away")
			if row.copies {
				require.Equal(t, count, got, "they were the process's own")
			} else {
				require.Equal(t, at, got)
			}
			require.ErrorIs(t, row.read(g.InputGate, body), shuffle.ErrIncomplete)
		})
	}
}

// A codec that finds the zeros of a record is not the one to say what is wrong.
func TestRecordOfTakenMemoryIsNotCorrupt(t *testing.T) {
	for name, codec := range map[string]refusing{"fails": {}, "panics": {panics: true}} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 16,
			SegmentSize: 4096})
		g := link.Gate(0)
		records := numbered(50, 40)
		emitStrings(t, link, records)
		const at, framed = 20, 44
		memory := link.Region().Bytes()
		next := int(link.Layout.SegmentOffset(link.ReadPublished(0)[0].Segment)) + at*framed
		got := 0
		err := rangeOver(codec)(g, func(record string) error {
			require.Equal(t, records[got], record)
			if got++; got == at { // the length was read before
				clear(memory[:4096])
				clear(memory[next+4 : next+framed])
			}
			return nil
		})
		require.ErrorIs(t, err, shuffle.ErrPartitionReleased, name)
		require.NotErrorIs(t, err, shuffle.ErrCorruptRecord, name)
		var lost *shuffle.ChannelError
		require.ErrorAs(t, err, &lost)
		require.True(t, lost.Ended)
		require.Equal(t, at, got)
	}
}

func TestWhatALoopLeavesOfTakenMemoryIsNotKept(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 16, SegmentSize: 4096})
	g := link.Gate(0)
	records := numbered(50, 40)
	emitStrings(t, link, records)
	got, errStop := 0, errors.New("stop")
	body := func(record string) error {
		require.Equal(t, records[got], record)
		if got++; got == 20 {
			takeMemory(link)
			return errStop
		}
		return nil
	}
	require.ErrorIs(t, rangeOver(shuffle.Strings{})(g, body), errStop)
	err := rangeOver(shuffle.Strings{})(g, body)
	require.ErrorIs(t, err, shuffle.ErrIncomplete)
	require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
	require.Equal(t, 20, got)
}

// A channel whose end is known already says why it has ended, as before.
func TestTakenMemoryOfAFailedChannelIsToldWithItsCause(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 16, SegmentSize: 4096})
	g := linktest.NewGate(t, linktest.Mapped, 1)
	g.Attach(0, link, 0)
	emitStrings(t, link, numbered(200, 40)) // over several buffers
	cause := errors.New("by the operator")
	b, err := g.Next(context.Background())
	require.NoError(t, err)
	require.NoError(t, b.Release())
	g.FailChannel(0, cause)
	takeMemory(link)
	_, err = g.Next(context.Background())
	require.ErrorIs(t, err, cause)
	require.ErrorContains(t, err, "not all that was committed can be read")
	require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
}

// Those that are there are records, whichever way they are read.
func TestRecordsOfNoBytesAreRecords(t *testing.T) {
	records := make([]string, 300)
	records[7] = "one that is not"
	for _, copies := range []bool{false, true} {
		for name, read := range map[string]func(g *gate.InputGate, body func(record string) error) error{
			"bytes": rangeOver(shuffle.Bytes{}), "strings": rangeOver(shuffle.Strings{}),
		} {
			link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 200,
				SegmentSize: 10})
			g := linktest.NewGate(t, linktest.Mapped, 1, func(s *shuffle.GateSpec) { s.CopyRecords = copies })
			g.Attach(0, link, 0)
			emitStrings(t, link, records)
			var got []string
			require.NoError(t, read(g.InputGate, func(record string) error { got = append(got, record); return nil }),
				name)
			require.Equal(t, records, got, name)
		}
	}
}
