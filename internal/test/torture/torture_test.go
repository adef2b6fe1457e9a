package torture

import (
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// fromEnvironment returns a number that may be set in the environment.
func fromEnvironment(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(text, 10, 64)
	require.NoError(t, err, name)
	return n
}

func TestSurvivorsEndWellWhoeverIsKilled(t *testing.T) {
	rounds := fromEnvironment(t, "SHUFFLED_TORTURE_ROUNDS", 20)
	seed := fromEnvironment(t, "SHUFFLED_TORTURE_SEED", uint64(time.Now().UnixNano()))
	t.Logf("%d rounds, SHUFFLED_TORTURE_SEED=%d", rounds, seed)
	t.Run("default isolation", func(t *testing.T) { torture(t, rounds, seed) })
	t.Run("strict isolation", func(t *testing.T) { torture(t, (rounds+3)/4, seed, "--isolation", "strict") })
}

// torture runs rounds on one daemon with the given flags.
func torture(t *testing.T, rounds, seed uint64, args ...string) {
	d := startDaemon(t, args...)
	_, c := dial(t, d)
	f := &figures{ends: make(map[string]int)}
	start := time.Now()
	var before baseline
	for i := range rounds {
		r := plan(t, rand.New(rand.NewPCG(seed, i)), d, c)
		r.run(f)
		if before == nil {
			// The first round made the daemon open what it keeps: a poller, a few
			// goroutines of its runtime.
			quiesce(t, d, 1)
			before = look(d)
		}
		requireBaseline(t, d, before)
	}
	require.Equal(t, 1.0, before["shuffled_connections"])
	for _, name := range []string{
		"partitions", "mappings", "shuffled_gates", `shuffled_segments{state="granted"}`,
		`shuffled_segments{state="promised"}`,
		`shuffled_shm_bytes{state="control"}`, `shuffled_shm_backed_bytes`,
	} {
		require.Zero(t, before[name], name)
	}
	require.Zero(t, d.Metrics()["shuffled_protocol_errors_total"])
	t.Logf("%d rounds in %v: %d producers killed (%d of them before a commit), %d consumers killed, %d of all stopped before, %d left early; "+
		"%d producers got ErrConsumerLost; %d records, %d MiB checked; channels ended by %v; the daemon holds %v",
		f.rounds, time.Since(start).Round(time.Second), f.killedProducers, f.held, f.killedConsumers, f.stopped, f.left,
		f.consumersLost, f.records, f.bytes>>20, f.ends, look(d))
}
