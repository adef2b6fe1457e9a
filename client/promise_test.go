package client

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/pool"
	"shuffled/shuffle"
)

// withTidyPause has the client look for idle partitions at another pace.
func withTidyPause(pause time.Duration) Option { return func(o *options) { o.tidyPause = pause } }

// fill writes to a partition until there is nothing more for it to write to, without a
// waiting writer left behind.
func fill(t *testing.T, d *testDaemon, p shuffle.ResultPartition) {
	t.Helper()
	record := framed(string(make([]byte, 1000)))
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		for {
			if err := p.EmitRecord(ctx, record, 0); err != nil {
				ended <- err
				return
			}
		}
	}()
	require.Eventually(t, func() bool {
		s := d.Snapshot()
		for _, row := range s.Partitions {
			if row.ID == p.ID() {
				isUsedUp := row.BuffersOut == uint64(row.SegmentsHeld)
				return isUsedUp && (row.SegmentsHeld == row.PoolMax || s.Pool.Available == s.Pool.Reserved)
			}
		}
		return false
	}, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-ended, context.Canceled)
}

// Whoever is admitted can write at once what it has required, whatever others hold;
// and who is not is told who holds the memory.
func TestPartitionIsAdmittedOnlyIfItCanWrite(t *testing.T) {
	for _, row := range []struct {
		name       string
		memory     int64
		floating   int
		partitions int
		spec       shuffle.PartitionSpec
		consumer   bool // one that reads nothing
	}{
		{"unbounded without a consumer", 1 << 20, 0, 3, shuffle.PartitionSpec{Type: shuffle.Pipelined,
			Subpartitions: 1}, false},
		{"bounded and stopped", 1 << 20, 1 << 19, 4, shuffle.PartitionSpec{Subpartitions: 4}, true},
		{"bounded and unread", 1 << 20, 1 << 18, 12, shuffle.PartitionSpec{Subpartitions: 3}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			config := testConfig()
			config.Memory, config.FloatingTarget, config.AdmissionTimeout = row.memory, row.floating,
				50*time.Millisecond
			d := startDaemon(t, config)
			c := d.dial(t)
			var filled []shuffle.ResultPartition
			var gates []shuffle.InputGate
			for len(filled) < row.partitions {
				s := row.spec
				s.ID, s.Name = shuffle.NewPartitionID(), "a partition that is full"
				p, err := c.CreatePartition(testContext(t), s)
				if err != nil {
					require.ErrorIs(t, err, shuffle.ErrInsufficientBuffers)
					require.ErrorContains(t, err, "most are held by: partition")
					break
				}
				if row.consumer {
					gates = append(gates, openOne(t, c, s.ID, 0))
				}
				for sub := range s.Subpartitions {
					require.NoError(t, p.EmitRecord(testContext(t), framed("a first record"), sub), "partition %d",
						len(filled))
				}
				fill(t, d, p)
				filled = append(filled, p)
			}
			require.Less(t, len(filled), row.partitions, "the last ones are refused")
			require.GreaterOrEqual(t, len(filled), 1)

			// With the first one gone, the next one can be created.
			require.NoError(t, filled[0].Close())
			for _, gate := range gates {
				require.NoError(t, gate.Close())
			}
			var p shuffle.ResultPartition
			require.Eventually(t, func() (created bool) { // refused while that is on its way
				var err error
				p, err = c.CreatePartition(testContext(t), spec(1))
				return err == nil
			}, patience, time.Millisecond)
			require.NoError(t, p.EmitRecord(testContext(t), framed("hello"), 0))
			for _, p := range append(filled[1:], p) {
				require.NoError(t, p.Close())
			}
		})
	}
}

func TestCreationWaitsUntilAConsumerHasReadWhatIsInTheWay(t *testing.T) {
	config := testConfig()
	config.Memory, config.AdmissionTimeout = 1<<20, patience
	d := startDaemon(t, config)
	producer, consumer := d.dial(t, withTidyPause(time.Millisecond)), d.dial(t)
	s := shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Type: shuffle.Pipelined, Subpartitions: 1}
	full := create(t, producer, s)
	fill(t, d, full)
	created := make(chan error, 1)
	var second shuffle.ResultPartition
	go func() {
		var err error
		second, err = producer.CreatePartition(testContext(t), spec(50))
		created <- err
	}()
	require.Eventually(t, func() bool { return d.Snapshot().Pool.Waiting == 1 }, patience, time.Millisecond)
	rows, err := producer.List(testContext(t))
	require.NoError(t, err, "others go on")
	require.Len(t, rows, 2)

	gate := openOne(t, consumer, s.ID, 0)
	for done := false; !done; {
		select {
		case err := <-created:
			require.NoError(t, err)
			done = true
		default:
			ctx, cancel := context.WithTimeout(testContext(t), 20*time.Millisecond)
			b, err := gate.Next(ctx)
			cancel()
			if err != nil {
				require.ErrorIs(t, err, context.DeadlineExceeded, "all is read")
				continue
			}
			require.NoError(t, b.Release())
		}
	}
	for sub := range 50 {
		require.NoError(t, second.EmitRecord(testContext(t), framed("at once"), sub))
	}
	require.NoError(t, second.Close())
	require.NoError(t, full.Close())
	require.NoError(t, gate.Close())
	d.requireIdle(t)
}

func TestCreationThatIsGivenUpWhileItWaitsLeavesNothing(t *testing.T) {
	config := testConfig()
	config.Memory, config.AdmissionTimeout = 1<<20, time.Hour
	d := startDaemon(t, config)
	c := d.dial(t)
	full := create(t, c, shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Type: shuffle.Pipelined, Subpartitions: 1})
	fill(t, d, full)
	s := spec(1)
	ctx, cancel := context.WithCancel(testContext(t))
	created := make(chan error, 1)
	go func() {
		_, err := c.CreatePartition(ctx, s)
		created <- err
	}()
	require.Eventually(t, func() bool { return d.Snapshot().Pool.Waiting == 1 }, patience, time.Millisecond)
	cancel()
	require.ErrorIs(t, <-created, context.Canceled)
	require.Eventually(t, func() bool {
		return d.Snapshot().Pool.Waiting == 0 && len(d.Snapshot().Partitions) == 1
	}, patience, time.Millisecond)
	require.NoError(t, full.Close())
	create(t, c, s) // the same attempt
}

func TestPartitionThatNobodyWritesCostsNoSegment(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	idle, busy, finished := create(t, c, spec(100)), create(t, c, spec(100)), create(t, c, spec(100))
	gate := openOne(t, c, finished.ID(), 0)
	require.NoError(t, finished.Finish(testContext(t)))
	require.Empty(t, readAll(t, gate))
	require.NoError(t, idle.FlushAll())
	require.Zero(t, d.Snapshot().Pool.Used)

	require.NoError(t, busy.EmitRecord(testContext(t), framed("one"), 7))
	require.Positive(t, d.Snapshot().Pool.Used)
	require.LessOrEqual(t, d.Snapshot().Pool.Used, requestBatch, "not one for each subpartition")
	require.NoError(t, gate.Close())
}

func TestIdlePartitionGivesBackWhatABurstHasTaken(t *testing.T) {
	for _, flush := range []bool{true, false} {
		d := startDaemon(t, testConfig())
		producer, consumer := d.dial(t, withTidyPause(time.Millisecond)), d.dial(t)
		s := shuffle.PartitionSpec{ID: shuffle.NewPartitionID(), Type: shuffle.Pipelined, Subpartitions: 1}
		p := create(t, producer, s)
		gate := openOne(t, consumer, s.ID, 0)
		record := framed(string(make([]byte, 4000)))
		for range 3000 {
			require.NoError(t, p.EmitRecord(testContext(t), record, 0))
		}
		require.Greater(t, d.Snapshot().Pool.Used, 2000, "nothing is read")
		require.NoError(t, p.FlushAll())
		for read := 0; read < 2999*len(record); {
			b, err := gate.Next(testContext(t))
			require.NoError(t, err)
			read += len(b.Bytes())
			require.NoError(t, b.Release())
		}
		require.Eventually(t, func() bool {
			if flush {
				require.NoError(t, p.FlushAll())
			}
			return d.Snapshot().Pool.Used <= 2
		}, patience, time.Millisecond, "the open buffer, and the one that is being read")
		require.NoError(t, p.EmitRecord(testContext(t), record, 0), "it fetches segments again")
		require.NoError(t, p.Close())
		require.NoError(t, gate.Close())
		d.requireIdle(t)
	}
}

func TestFinishedPartitionKeepsOnlyWhatIsUnread(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t, withTidyPause(time.Millisecond)), d.dial(t)
	p := create(t, producer, spec(2))
	gate := openOne(t, consumer, p.ID(), 0)
	record := framed(string(make([]byte, 4000)))
	for i := range 10 {
		require.NoError(t, p.EmitRecord(testContext(t), record, i%2))
	}
	require.NoError(t, p.Finish(testContext(t)))
	stats := func() pool.NetworkStats { return d.Snapshot().Pool }
	require.Eventually(t, func() bool { return stats().Used == 10 }, patience, time.Millisecond)
	require.Zero(t, stats().Reserved)
	require.Len(t, readAll(t, gate)[0], 5)
	require.Eventually(t, func() bool { return stats().Used == 5 }, patience, time.Millisecond,
		"the other subpartition")
	require.NoError(t, gate.Close())
}
