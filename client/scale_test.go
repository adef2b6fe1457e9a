package client

import (
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/daemon"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestGateWithMoreInputsThanFitAMessageMapsEachPartitionOnce(t *testing.T) {
	const subpartitions = 2500
	before := memseg.LiveMappings()
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(subpartitions)
	inputs := shuffle.GateSpec{Name: "wide"}
	for i := range subpartitions {
		inputs.Inputs = append(inputs.Inputs, shuffle.Input{Partition: s.ID, Subpartition: i})
	}
	gate, err := consumer.OpenGate(testContext(t), inputs)
	require.NoError(t, err)
	p := create(t, producer, s)
	require.NoError(t, p.BroadcastRecord(testContext(t), framed("to all")))
	for i := range subpartitions {
		require.NoError(t, p.EmitRecord(testContext(t), framed("to one"), i))
	}
	require.NoError(t, p.Finish(testContext(t)))
	// The producer's region and doorbell, and the gate's; of each the daemon's view,
	// its owner's and one for all peers together.
	require.LessOrEqual(t, memseg.LiveMappings(), before+2+8)
	got := readAll(t, gate)
	require.Len(t, got, subpartitions)
	for channel, records := range got {
		require.Equal(t, []string{"to all", "to one"}, records, "channel %d", channel)
	}
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}

func TestListPagesThroughManyPartitions(t *testing.T) {
	config := testConfig()
	config.Limits.ControlMemory = 1 << 30
	d := startDaemon(t, config)
	c := d.dial(t)
	want := make(map[shuffle.PartitionID]bool)
	for range 400 {
		s := spec(1)
		s.Name = string(make([]byte, shuffle.MaxNameLength))
		create(t, c, s)
		want[s.ID] = true
	}
	rows, err := c.List(testContext(t))
	require.NoError(t, err)
	require.Len(t, rows, len(want))
	for _, row := range rows {
		require.True(t, want[row.ID])
		delete(want, row.ID)
		require.Equal(t, "running", row.State)
		require.True(t, row.ProducerAttached)
		require.Equal(t, 2, row.PoolRequired)
	}
}

// What is not used costs little: the limits of a daemon with defaults let through wide
// partitions and many small ones.
func TestWidePartitionsAndManySmallOnesFitTheDefaultLimits(t *testing.T) {
	for _, row := range []struct {
		name          string
		memory        int64
		segmentSize   int
		subpartitions int
		buffers       int
		partitions    int
	}{
		{"10,000 subpartitions of 8 buffers", 512 << 20, 4 << 10, 10_000, 8, 1},
		{"32,768 subpartitions of 5 buffers", 768 << 20, 4 << 10, 32_768, 5, 1},
		{"2,000 small partitions", 256 << 20, 32 << 10, 1, 2, 2000},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := startDaemon(t, daemon.Config{Memory: row.memory, SegmentSize: row.segmentSize,
				FirstOrdinal: firstOrdinal, Version: "test"})
			producer, consumer := d.dial(t), d.dial(t)
			var partitions []shuffle.ResultPartition
			for range row.partitions {
				s := spec(row.subpartitions)
				s.BuffersPerChannel = row.buffers
				partitions = append(partitions, create(t, producer, s))
			}
			perQueue := d.Snapshot().ControlBytes / int64(row.partitions*row.subpartitions)
			if row.subpartitions > 1 {
				require.LessOrEqual(t, perQueue, int64(900))
			} else {
				require.LessOrEqual(t, perQueue, int64(5*4096),
					"header, queue and markers in four pages, and a doorbell")
			}
			first, last := partitions[0], partitions[row.partitions-1]
			for _, p := range []shuffle.ResultPartition{first, last} {
				for _, sub := range []int{0, row.subpartitions / 2, row.subpartitions - 1} {
					require.NoError(t, p.EmitRecord(testContext(t), framed("to one"), sub))
				}
				require.NoError(t, p.BroadcastEvent(testContext(t), shuffle.CustomEvent{Name: "to all"}))
				require.NoError(t, p.BroadcastRecord(testContext(t), framed("to all")))
				require.NoError(t, p.FlushAll())
			}
			for _, sub := range []int{0, row.subpartitions / 2, row.subpartitions - 1} {
				gate, err := consumer.OpenGate(testContext(t), gateOf(last.ID(), sub))
				require.NoError(t, err)
				for _, want := range []string{"to one", "event", "to all"} {
					b, err := gate.Next(testContext(t))
					require.NoError(t, err)
					if want == "event" {
						e, err := b.Event()
						require.NoError(t, err)
						require.Equal(t, shuffle.CustomEvent{Name: "to all"}, e)
					} else {
						require.Equal(t, framed(want), b.Bytes()[:len(framed(want))])
					}
					require.NoError(t, b.Release())
				}
				require.NoError(t, gate.Close())
				if row.subpartitions == 1 {
					break
				}
			}
			for _, p := range partitions {
				require.NoError(t, p.Close())
			}
			d.requireIdle(t)
		})
	}
}
