package partition_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// The daemon has ended the consumer's connection, but its process is there, and reads
// on before it has heard of that.
func TestConsumerThatWasGivenUpHasNoEndOverTheRecordsOfOthers(t *testing.T) {
	const given = 4
	for read := range given {
		overMemories(t, func(t *testing.T, memory linktest.Memory) {
			link := linktest.New(t, linktest.Config{
				Memory: memory, Subpartitions: 2, Segments: given + 1, SegmentSize: 64,
				OnLost: shuffle.DiscardOnConsumerLost,
			})
			p, c := link.Partition, link.Consumer(0)
			link.Consumer(1)
			for range given {
				emit(t, p, 60, 0)
			}
			for range read {
				take(t, c.SubpartitionView)
			}
			p.DetachConsumer(0, false, "gone")
			for range given {
				emit(t, p, 60, 1) // where the others were
			}
			require.NoError(t, p.Finish(context.Background()))

			require.True(t, c.IsAvailableBeyond(0))
			for range 2 {
				var b memseg.Buffer
				_, err := c.Take(&b)
				require.ErrorIs(t, err, shuffle.ErrConsumerLost)
				require.NotErrorIs(t, err, shuffle.ErrProtocol)
			}
			require.False(t, c.Ended())
		})
	}
}

func TestConsumerThatWasGivenUpIsWoken(t *testing.T) {
	link := linktest.New(t, linktest.Config{
		Memory: linktest.Mapped, Subpartitions: 2, Segments: 3, SegmentSize: 64, OnLost: shuffle.DiscardOnConsumerLost,
	})
	gate := link.Gate(0)
	ended := make(chan error, 1)
	go func() {
		_, err := gate.Next(context.Background())
		ended <- err
	}()
	link.Partition.DetachConsumer(0, false, "gone")
	require.ErrorIs(t, <-ended, shuffle.ErrConsumerLost)
	_, err := gate.Next(context.Background())
	require.ErrorIs(t, err, shuffle.ErrIncomplete)
}
