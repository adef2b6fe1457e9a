package client

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/memseg"
	"shuffled/shuffle"
)

// Of a partition of two subpartitions, the first has a reader that has released a
// part and keeps one buffer. Its producer ends it.
func TestEndedPartitionKeepsOnlyWhatItsReaderMayStillRead(t *testing.T) {
	for name, end := range map[string]func(p shuffle.ResultPartition, t *testing.T) error{
		"released": func(p shuffle.ResultPartition, t *testing.T) error { return p.Release(testContext(t)) },
		"failed": func(p shuffle.ResultPartition, t *testing.T) error {
			return p.Fail(testContext(t), errors.New("enough"))
		},
		"closed": func(p shuffle.ResultPartition, t *testing.T) error { return p.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			d := startDaemon(t, testConfig())
			producer, consumer := d.dial(t), d.dial(t)
			s := spec(2)
			p := create(t, producer, s)
			gate := openOne(t, consumer, s.ID, 0)
			const size, each = 4000, 10 // a segment holds one of these
			for i := range each {
				record := framed(fmt.Sprintf("%0*d", size, i))
				require.NoError(t, p.EmitRecord(testContext(t), record, 0))
				require.NoError(t, p.EmitRecord(testContext(t), record, 1))
			}
			require.NoError(t, p.FlushAll())
			for range 3 {
				b, err := gate.Next(testContext(t))
				require.NoError(t, err)
				require.NoError(t, b.Release())
			}
			kept, err := gate.Next(testContext(t))
			require.NoError(t, err)
			content := string(kept.Bytes())
			require.NoError(t, end(p, t))

			const left = (each - 3) * 4096
			require.Eventually(t, func() bool {
				now := d.Snapshot()
				return now.Memory.Ended == left && now.Memory.Granted == 0 && now.BackedBytes <= left+now.ControlBytes
			}, patience, time.Millisecond, "what was read, and what is meant for nobody, is taken back")
			rows, err := consumer.List(testContext(t))
			require.NoError(t, err)
			require.Len(t, rows, 1)
			require.EqualValues(t, left, rows[0].HeldBytes)
			require.Equal(t, 1, rows[0].Readers)
			require.EqualValues(t, os.Getpid(), rows[0].Keeper.PID)
			require.EqualValues(t, os.Geteuid(), rows[0].Keeper.UID)
			since := rows[0].StillSince
			require.WithinRange(t, since, rows[0].Created, time.Now())

			// The reader goes on, and gives back as it does.
			require.Equal(t, content, string(kept.Bytes()))
			require.NoError(t, kept.Release())
			for i := 4; i < 6; i++ {
				b, err := gate.Next(testContext(t))
				require.NoError(t, err)
				require.Equal(t, string(framed(fmt.Sprintf("%0*d", size, i)))[:len(b.Bytes())], string(b.Bytes()))
				require.NoError(t, b.Release())
			}
			require.Eventually(t, func() bool { return d.Snapshot().Memory.Ended == left-3*4096 }, patience,
				time.Millisecond)
			rows, err = consumer.List(testContext(t))
			require.NoError(t, err)
			require.True(t, rows[0].StillSince.After(since), "it has moved")
			data, err := nextError(t, gate)
			require.Len(t, data, 4*(size+4), "all that was committed")
			require.Error(t, err)
			require.NotErrorIs(t, err, shuffle.ErrClosed)
			require.NoError(t, gate.Close())
			_ = p.Close()
			d.requireIdle(t)
		})
	}
}

// A producer that only lost its connection goes on until it notices, and so does its
// consumer: nothing of what they share may be taken away.
func TestProducerThatLostItsConnectionKeepsItsMemoryUntilItCloses(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	gate := openOne(t, consumer, s.ID, 0)
	for i := range 5 {
		require.NoError(t, p.EmitRecord(testContext(t), framed(fmt.Sprintf("%04000d", i)), 0))
	}
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, b.Release())
	held := d.Snapshot().Pool.Used
	require.NoError(t, producer.conn.Close())
	require.Eventually(t, func() bool {
		rows, err := consumer.List(testContext(t))
		return err == nil && len(rows) == 1 && rows[0].State == "lost" && rows[0].Readers == 1
	}, patience, time.Millisecond)
	now := d.Snapshot()
	require.GreaterOrEqual(t, now.Pool.Used, held)
	require.EqualValues(t, now.Pool.Used*4096, now.Memory.Ended)
	data, err := nextError(t, gate)
	require.ErrorIs(t, err, shuffle.ErrProducerLost)
	require.Len(t, data, 4*4004)
	require.Equal(t, now.Memory, d.Snapshot().Memory, "also what was read is still its producer's")
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}

// One after the other and with others: touch what was never granted, close and keep
// what was mapped, and bring memory back into it.
func TestHonestPairGoesOnBesideClientsThatTakeWhatTheyWereNotGiven(t *testing.T) {
	config := testConfig()
	d := startDaemon(t, config)
	base := d.Snapshot()
	const slack = 8 << 20 // what three clients touch between two looks
	stop, hostile := make(chan struct{}), make(chan error, 3)
	most := make(chan int64)
	for i := range 3 {
		go func() {
			c, err := Dial(testContext(t), WithSocket(d.path))
			if err != nil {
				hostile <- err
				return
			}
			defer func() { _ = c.Close() }()
			p, err := c.CreatePartition(testContext(t), shuffle.PartitionSpec{ID: shuffle.NewPartitionID(),
				Type: shuffle.Pipelined, Subpartitions: 1})
			if err != nil {
				hostile <- err
				return
			}
			region := regionOf(c)
			if err := region.Retain(); err != nil {
				hostile <- err
				return
			}
			if i > 0 {
				_ = p.Close()
			}
			for done := false; !done; {
				for at := region.Size() - 2<<20; at < region.Size(); at += 4096 {
					region.Bytes()[at] = 1
				}
				select {
				case <-stop:
					done = true
				case <-time.After(5 * time.Millisecond):
				}
			}
			hostile <- region.Release()
			_ = p.Close()
		}()
	}
	go func() {
		var seen int64
		for {
			select {
			case <-stop:
				most <- seen
				return
			case <-time.After(time.Millisecond):
				seen = max(seen, d.Snapshot().BackedBytes)
			}
		}
	}()

	producer, consumer := d.dial(t), d.dial(t)
	for range 20 {
		s := spec(1)
		gate := openOne(t, consumer, s.ID, 0)
		p := create(t, producer, s)
		finished := make(chan error, 1)
		go func() {
			for range 500 {
				if err := p.EmitRecord(testContext(t), framed(fmt.Sprintf("%01000d", 7)), 0); err != nil {
					finished <- err
					return
				}
			}
			finished <- p.Finish(testContext(t))
		}()
		require.Len(t, readAll(t, gate)[0], 500)
		require.NoError(t, <-finished)
		require.NoError(t, gate.Close())
		require.NoError(t, p.Close())
	}
	require.Eventually(t, func() bool { return d.Snapshot().Totals.UngrantedBytes > 6<<20 }, patience, time.Millisecond)
	close(stop)
	require.LessOrEqual(t, <-most, config.Memory+slack)
	for range 3 {
		require.NoError(t, <-hostile)
	}
	d.requireIdle(t)
	now := d.Snapshot()
	require.Zero(t, now.BackedBytes)
	require.Equal(t, base.Memory, now.Memory)
	require.Zero(t, now.Pool.Withheld)
}

// regionOf returns the region of a client's only partition.
func regionOf(c *Client) *memseg.Region {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.partitions {
		return p.region
	}
	return nil
}
