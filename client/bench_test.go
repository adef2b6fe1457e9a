package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/daemon"
)

// The whole life of a partition and a gate without data: what the control plane
// costs.
func BenchmarkPartitionLife(b *testing.B) {
	d := startDaemon(b, daemon.Config{Memory: 256 << 20})
	producer, consumer := d.dial(b), d.dial(b)
	for b.Loop() {
		s := spec(4)
		gate, err := consumer.OpenGate(testContext(b), gateOf(s.ID, 0, 1, 2, 3))
		require.NoError(b, err)
		p, err := producer.CreatePartition(testContext(b), s)
		require.NoError(b, err)
		require.NoError(b, p.Finish(testContext(b)))
		readAll(b, gate)
		require.NoError(b, gate.Close())
		require.NoError(b, p.Close())
	}
}
