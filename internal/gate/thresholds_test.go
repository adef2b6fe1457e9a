package gate_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/gate"
	"shuffled/internal/test/linktest"
)

func TestChannelLeavesAtMostHalfOfItsThreshold(t *testing.T) {
	g := linktest.NewGate(t, linktest.Heap, 1)
	const most = 1 << 10
	for part, leave := range map[int]int{0: 0, most / 4: 0, most / 2: 0, most * 3 / 4: most / 4, most: most / 2} {
		unit := gate.MaxThreshold / most
		require.Equal(t, leave*unit, g.SetThreshold(0, part*unit), "%d of %d", part, most)
	}
}

// A producer that was fast and stops leaves data that its consumer would not read
// for lack of more: it is read all the same, soon.
func TestWhatABusyChannelLeavesIsReadWhenNoMoreComes(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		l := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 64, SegmentSize: segmentSize})
		g := linktest.NewGate(t, memory, 1)
		g.Attach(0, l, 0)
		requireNothing(t, g)
		g.SetThreshold(0, gate.MaxThreshold)
		const buffers = 3
		for range buffers {
			emit(t, l, segmentSize)
		}
		for range buffers {
			b, err := g.Next(context.Background())
			require.NoError(t, err)
			require.Equal(t, segmentSize, b.Len())
			require.NoError(t, b.Release())
		}
		requireNothing(t, g)
	})
}
