//go:build invariants

package partition_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/invariants"
	"shuffled/internal/test/linktest"
)

func TestReleasedRecordIsPoisonedOnceTheProducerHasTakenItBack(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 4, SegmentSize: 64})
		p, v := link.Partition, link.View(0)
		emit(t, p, 60, 0)
		emit(t, p, 60, 0) // ends the first buffer
		first := hold(t, v)
		kept := first.Bytes()
		p.Reclaim()
		require.Equal(t, bytes.Repeat([]byte{60}, 60), kept[len(kept)-60:], "held")
		require.NoError(t, first.Release())
		p.Reclaim()
		require.Equal(t, bytes.Repeat([]byte{invariants.PoisonByte}, len(kept)), kept)
	})
}
