package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/internal/test/daemontest"
	"shuffled/internal/test/leaktest"
	"shuffled/shuffle"
)

// countBuffers reads a gate to its end.
func countBuffers(t *testing.T, gate shuffle.InputGate) (data int) {
	t.Helper()
	for {
		b, err := gate.Next(testContext(t))
		if err == io.EOF {
			return data
		}
		require.NoError(t, err)
		if !b.IsEvent() {
			data++
		}
		b.Release()
	}
}

// untilRefused opens something with so many free descriptors until it is refused: what
// was left to close may free a number for good between the count and the opening.
func untilRefused(t *testing.T, free uint64, open func() (io.Closer, error)) (err error) {
	t.Helper()
	for range 100 {
		var opened io.Closer
		restore := leaktest.LeaveDescriptors(t, free)
		opened, err = open()
		restore()
		if err != nil {
			return err
		}
		require.NoError(t, opened.Close())
	}
	return nil
}

func TestWorkerWithoutAFreeDescriptorLosesThatCallOnly(t *testing.T) {
	d := start(t)
	c := dial(t, d)
	id := shuffle.NewPartitionID()
	p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: id, Subpartitions: 1})
	require.NoError(t, err)
	defer p.Close()
	gate := oneInput(t, c, id)
	defer gate.Close()
	require.NoError(t, p.EmitRecord(testContext(t), []byte("\x00\x00\x00\x01x"), 0))
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, b.Release())
	_, err = c.List(testContext(t)) // it has heard of its consumer
	require.NoError(t, err)

	for free := range uint64(2) { // a region and its doorbell need two
		createErr := untilRefused(t, free, func() (io.Closer, error) {
			return c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
				Subpartitions: 1})
		})
		gateErr := untilRefused(t, free, func() (io.Closer, error) {
			return c.OpenGate(testContext(t), shuffle.GateSpec{Inputs: []shuffle.Input{{Partition: id}}})
		})
		for _, err := range []error{createErr, gateErr} {
			require.ErrorIs(t, err, unix.EMFILE)
			require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
			require.ErrorContains(t, err, "raise its RLIMIT_NOFILE")
			require.NotErrorIs(t, err, shuffle.ErrDaemonLost)
		}
	}
	write(t, p, "the others go on")
	require.Equal(t, 1, countBuffers(t, gate))
	again, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
		Subpartitions: 1})
	require.NoError(t, err)
	require.NoError(t, again.Close())
	require.NoError(t, p.Close())
	require.NoError(t, gate.Close())
	eventually(t, "what the worker could not take in is given up", func() bool {
		m := d.Metrics()
		return m[`shuffled_shm_bytes{state="backed"}`] == 0 && m["shuffled_gates"] == 0
	})
}

// The descriptors that the daemon sends are closed as fast as they are received,
// so a worker needs two free ones for any number of partitions.
func TestWorkerWithFewDescriptorsHasManyPartitions(t *testing.T) {
	d := start(t, "--segment-size", "4KiB")
	producer, consumer := dial(t, d), dial(t, d)
	const partitions = 200
	// Both clients may be receiving a message with two.
	defer leaktest.LeaveDescriptors(t, 4)()
	spec := shuffle.GateSpec{Timeout: daemontest.Patience}
	for range partitions {
		spec.Inputs = append(spec.Inputs, shuffle.Input{Partition: shuffle.NewPartitionID()})
	}
	gate, err := consumer.OpenGate(testContext(t), spec)
	require.NoError(t, err)
	defer gate.Close()
	for _, in := range spec.Inputs {
		p, err := producer.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: in.Partition, Subpartitions: 1})
		require.NoError(t, err)
		defer p.Close()
		write(t, p, "one")
	}
	require.Equal(t, partitions, countBuffers(t, gate))
}
