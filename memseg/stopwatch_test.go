package memseg

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestStopwatchIsSeenWhileItRuns(t *testing.T) {
	var word Word
	w := NewStopwatch(&word)
	require.Zero(t, w.Total())
	w.Start()
	seen, running := ReadStopwatch(&word, time.Hour)
	require.True(t, running)
	w.Start() // goes on
	require.Eventually(t, func() bool {
		total, running := ReadStopwatch(&word, time.Hour)
		return running && total > seen
	}, time.Minute, time.Millisecond)
	require.Greater(t, w.Total(), seen)
	w.Stop()
	total := w.Total()
	shown, running := ReadStopwatch(&word, time.Hour)
	require.False(t, running)
	require.Equal(t, total, shown)
	require.Equal(t, uint64(total), word.Load())
	w.Stop()
	require.Equal(t, total, w.Total())
	w.Start()
	shown, _ = ReadStopwatch(&word, time.Hour)
	require.GreaterOrEqual(t, shown, total, "it never goes back")
}

func TestStopwatchOfAHostileWriterIsBounded(t *testing.T) {
	for name, row := range map[string]struct {
		word uint64
		want time.Duration
	}{
		"a total that no counter reaches": {1<<63 - 1, 0},
		"a total beyond the limit":        {uint64(time.Hour), time.Second},
		"started at the boot":             {stopwatchRuns, time.Second},
		"starts in the future":            {math.MaxUint64, 0},
		"honest":                          {uint64(time.Millisecond), time.Millisecond},
	} {
		var word Word
		word.Store(row.word)
		total, _ := ReadStopwatch(&word, time.Second)
		require.Equal(t, row.want, total, name)
		total, _ = ReadStopwatch(&word, -time.Second)
		require.Zero(t, total, name)
	}
}
