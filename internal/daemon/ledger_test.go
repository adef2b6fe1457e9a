package daemon

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func isRoot(uid uint32) bool { return uid == 0 }

func testLedger(limits Limits, memory int64) *ledger {
	return newLedger(limits.withDefaults(memory), memory, isRoot)
}

func TestLedgerNamesItsLimitsAndForgetsWhoHasNothing(t *testing.T) {
	l := testLedger(Limits{PartitionsPerUID: 2, ControlMemory: 100}, 0)
	use := account{partitions: 1, control: 30, memory: 10}
	require.NoError(t, l.reserve(1, use))
	require.NoError(t, l.reserve(1, use))
	err := l.reserve(1, use)
	require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
	require.ErrorContains(t, err,
		"limit --max-partitions-per-uid of the daemon: 2 in use by uid 1 and 1 more, limit 2: raise it or give some back")
	require.NoError(t, l.reserve(2, account{partitions: 1, control: 5, memory: 10}))
	require.ErrorContains(t, l.reserve(0, account{control: 40}),
		"limit --max-control-memory of the daemon: 65 in use (0 by uid 0) and 40 more, limit 100: raise it")
	require.Equal(t, account{partitions: 3, control: 65, memory: 30}, l.inUse())
	l.release(2, account{partitions: 1, control: 5, memory: 10})
	l.release(1, use)
	l.release(1, use)
	require.Equal(t, account{}, l.inUse())
	require.Empty(t, l.perUID)
}

// Whoever takes as much as it gets, of whatever it is, leaves the others their
// part.
func TestUserAtItsLimitLeavesTheOthersTheirs(t *testing.T) {
	limits := Limits{Connections: 160, Partitions: 160, Gates: 160, Descriptors: 1000, ControlMemory: 160,
		HeapMemory: 160}
	for name, use := range map[string]account{
		"--max-connections": {connections: 1}, "--max-partitions": {partitions: 1}, "--max-gates": {gates: 1},
		"--max-control-memory": {control: 1}, "--max-heap-memory": {heap: 1}, "--memory": {promised: 1},
	} {
		l := testLedger(limits, 160)
		take := func(uid uint32) (n int) {
			t.Helper()
			for {
				err := l.reserve(uid, use)
				if err != nil {
					require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
					require.ErrorContains(t, err, "limit "+name+" of the daemon: ")
					return n
				}
				n++
			}
		}
		require.Equal(t, 140, take(1), "%s: all but an eighth", name)
		require.Equal(t, 10, take(2), "%s: a sixteenth", name)
		require.Equal(t, 10, take(3), "%s: a sixteenth", name)
		require.Zero(t, take(1), name)
		l.release(1, use)
		require.Zero(t, take(1), "%s: what is given back is for those that have little", name)
		if name != "--memory" { // whose end the pool knows
			require.Equal(t, 1, take(4), name)
		}
	}

	l := testLedger(limits, 160)
	require.NoError(t, l.reserve(0, account{partitions: 160}), "root is not held back")
	require.ErrorContains(t, l.reserve(0, account{partitions: 1}), "160 in use (160 by uid 0) and 1 more, limit 160")
	l = testLedger(limits, 160)
	require.NoError(t, l.reserve(7, account{partitions: 140}))
	require.ErrorContains(t, l.reserve(7, account{partitions: 1}),
		"limit --max-partitions of the daemon: 140 in use (140 by uid 7) and 1 more, limit 160, of which the last 20 are kept for users with less than 10")
}

func TestConnectionsWithoutAHelloAreAQuarterOfAUsers(t *testing.T) {
	l := testLedger(Limits{Connections: 160}, 0)
	use := account{connections: 1, greeting: 1}
	require.NoError(t, l.reserve(0, account{connections: 40, greeting: 40}))
	require.ErrorContains(t, l.reserve(0, use), "connections without a hello")
	require.NoError(t, l.reserve(1, use), "others")
	l.release(0, account{greeting: 40})
	require.NoError(t, l.reserve(0, use))
}
