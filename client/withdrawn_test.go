package client

import (
	"context"
	"errors"
	"iter"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/reader"
	"shuffled/shuffle"
)

// A consumer that is slower than the grace finds zeros, and is told why.
func TestConsumerThatAnOperatorsReleaseFindsReadingIsToldOfIt(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	gate := openOne(t, consumer, s.ID, 0)
	for range 400 { // over several buffers
		require.NoError(t, p.EmitRecord(testContext(t), framed("a record of the partition"), 0))
	}
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, producer.Withdraw(testContext(t), s.ID, uint32(os.Geteuid())))
	require.Eventually(t, func() bool { return b.Bytes()[3] == 0 }, patience, time.Millisecond)
	require.NoError(t, b.Release())
	for err == nil || !errors.Is(err, shuffle.ErrPartitionReleased) {
		if b, err = gate.Next(testContext(t)); err == nil {
			require.NoError(t, b.Release())
			continue
		}
		require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
	}
	_, err = gate.Next(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrIncomplete)
}

// The producer is another process. Whoever is slower than the operator's patience gets
// the records that it has come to, and then the error.
func TestSlowConsumerOfAReleasedPartitionReadsNoZeros(t *testing.T) {
	for name, row := range map[string]struct {
		read   func(ctx context.Context, g shuffle.InputGate) iter.Seq2[string, error]
		copies bool
	}{
		"bytes": {read: func(ctx context.Context, g shuffle.InputGate) iter.Seq2[string, error] {
			return func(yield func(string, error) bool) {
				for record, err := range reader.Records(ctx, g, shuffle.Bytes{}) {
					if !yield(string(record), err) {
						return
					}
				}
			}
		}},
		"strings": {read: func(ctx context.Context, g shuffle.InputGate) iter.Seq2[string, error] {
			return reader.Records(ctx, g, shuffle.Strings{})
		}},
		"copies": {read: func(ctx context.Context, g shuffle.InputGate) iter.Seq2[string, error] {
			return reader.Records(ctx, g, shuffle.Strings{})
		}, copies: true},
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, testConfig())
			consumer, operator := d.dial(t), d.dial(t)
			id := shuffle.NewPartitionID()
			s := gateOf(id, 0)
			s.CopyRecords = row.copies
			gate, err := consumer.OpenGate(testContext(t), s)
			require.NoError(t, err)
			defer gate.Close()
			kill := startChild(t, "producer", d.path, id)
			defer kill()
			const at = 10
			got := 0
			for record, err := range row.read(testContext(t), gate) {
				if err != nil {
					require.ErrorIs(t, err, shuffle.ErrPartitionReleased)
					break
				}
				require.Equal(t, strconv.Itoa(got), record)
				if got++; got == at {
					require.NoError(t, operator.Withdraw(testContext(t), id, uint32(os.Geteuid())))
					require.Eventually(t, func() bool { return d.Snapshot().Pool.Used == 0 }, patience,
						time.Millisecond, "its memory was taken away")
				}
			}
			if row.copies {
				require.Greater(t, got, at, "the rest of the buffer was the process's own")
			} else {
				require.Equal(t, at, got)
			}
			_, err = gate.Next(testContext(t))
			require.ErrorIs(t, err, shuffle.ErrIncomplete)
		})
	}
}
