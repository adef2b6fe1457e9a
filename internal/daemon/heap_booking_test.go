//go:build !race

// The race detector makes stacks larger than those that are booked.

package daemon

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

// heapInUse is what the heap and the stacks of this process take.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

func TestHeapIsBookedAsMeasured(t *testing.T) {
	config := serverConfig()
	config.Memory = 64 << 20
	config.Limits.ControlMemory = 1 << 30
	s := startServer(t, config)
	c := s.greet()
	warm := c.openGate(10)
	require.NotNil(t, c.ask(addInputsMessage(warm, 0, shuffle.NewPartitionID(), 0)).GetAck())
	c.create(shuffle.NewPartitionID(), 1)
	for name, grow := range map[string]func(){
		"waiting inputs": func() {
			const inputs = 10_000
			gate := c.openGate(inputs)
			for first := 0; first < inputs; first += 10 {
				subpartitions := make([]uint32, 10)
				require.NotNil(t,
					c.ask(addInputsMessage(gate, uint32(first), shuffle.NewPartitionID(), subpartitions...)).GetAck())
			}
		},
		"waiting inputs, each of another partition": func() {
			const inputs = 5_000
			gate := c.openGate(inputs)
			for first := range uint32(inputs) {
				require.NotNil(t, c.ask(addInputsMessage(gate, first, shuffle.NewPartitionID(), 0)).GetAck())
			}
		},
		"gates": func() {
			for range 500 {
				c.openGate(1)
			}
		},
		"partitions": func() {
			for range 500 {
				c.create(shuffle.NewPartitionID(), 1)
			}
		},
		"subpartitions": func() {
			for range 3 {
				c.create(shuffle.NewPartitionID(), 5000)
			}
		},
		"connections": func() {
			for range 500 {
				s.greet()
			}
		},
	} {
		before, booked := heapInUse(), s.ledger.inUse().heap
		grow()
		used := heapInUse() - before
		booked = s.ledger.inUse().heap - booked
		t.Logf("%s: used %d, booked %d", name, used, booked)
		require.LessOrEqual(t, used, booked, name)
	}
}
