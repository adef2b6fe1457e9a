package reader_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/reader"
	"shuffled/shuffle"
)

// A wrapped gate is one that somebody else implements.
type wrapped struct{ shuffle.InputGate }

func TestRecordsOfAGateThatTheClientHasNotOpenedAreRefused(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 64})
	gate := link.Gate(0)
	require.NoError(t, link.Partition.EmitRecord(context.Background(), []byte("\x00\x00\x00\x01a"), 0))
	require.NoError(t, link.Partition.Finish(context.Background()))
	steps := 0
	for rec, err := range reader.Records(context.Background(), wrapped{gate}, shuffle.Strings{}) {
		steps++
		require.Empty(t, rec)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
		require.ErrorContains(t, err, "reader_test.wrapped is no gate of client.OpenGate")
	}
	require.Equal(t, 1, steps)
	var got []string
	for rec, err := range reader.Records(context.Background(), gate, shuffle.Strings{}) {
		require.NoError(t, err)
		got = append(got, rec)
	}
	require.Equal(t, []string{"a"}, got, "the gate itself is as it was")
}
