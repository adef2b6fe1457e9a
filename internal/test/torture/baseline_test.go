package torture

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/daemontest"
)

// A baseline is what the daemon holds: of its own books, and of the system.
type baseline map[string]float64

// look takes one.
func look(d *daemontest.Daemon) baseline {
	b := baseline{"partitions": 0}
	for name, value := range d.Metrics() {
		switch {
		case strings.HasPrefix(name, "shuffled_partitions{"):
			b["partitions"] += value
		case name == `shuffled_segments{state="granted"}`, name == `shuffled_segments{state="promised"}`,
			name == `shuffled_shm_bytes{state="control"}`, name == `shuffled_shm_backed_bytes`,
			name == "shuffled_connections", name == "shuffled_gates", name == "go_goroutines":
			b[name] = value
		}
	}
	b["descriptors"] = float64(d.Descriptors())
	b["mappings"] = float64(d.SharedMappings())
	return b
}

// above lists what a baseline has more of than another one.
func (b baseline) above(other baseline) (excess []string) {
	for name, value := range b {
		if value > other[name] {
			excess = append(excess, fmt.Sprintf("%s: %v, before %v", name, value, other[name]))
		}
	}
	return excess
}

// requireBaseline waits until the daemon holds no more than before.
func requireBaseline(t *testing.T, d *daemontest.Daemon, before baseline) {
	t.Helper()
	deadline := time.Now().Add(daemontest.Patience)
	for {
		excess := look(d).above(before)
		if len(excess) == 0 {
			return
		}
		if time.Now().After(deadline) {
			require.Fail(t, "the daemon holds more than before", "%s\n%s", strings.Join(excess, "\n"), d.Goroutines())
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// quiesce waits until nothing of the work before is left with the daemon, to which
// the test itself has some connections.
func quiesce(t *testing.T, d *daemontest.Daemon, connections int) {
	t.Helper()
	require.Eventually(t, func() bool {
		b := look(d)
		return b["partitions"] == 0 && b["shuffled_connections"] == float64(connections) && b["shuffled_gates"] == 0 &&
			b["mappings"] == 0
	}, daemontest.Patience, 2*time.Millisecond)
}
