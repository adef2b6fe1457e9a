package client

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/shuffle"
)

func TestRecordsReachTheirSubpartitionsInOrder(t *testing.T) {
	d := startDaemon(t, testConfig())
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(2)
	ctx := testContext(t)

	gate, err := consumer.OpenGate(ctx, gateOf(s.ID, 0, 1)) // before the partition is there
	require.NoError(t, err)
	p, err := producer.CreatePartition(ctx, s)
	require.NoError(t, err)
	var want [2][]string
	go func() {
		for i := range 2000 {
			if err := p.EmitRecord(ctx, framed(fmt.Sprintf("record %d", i)), i%2); err != nil {
				t.Error(err)
				return
			}
		}
		if err := p.Finish(ctx); err != nil {
			t.Error(err)
		}
	}()
	for i := range 2000 {
		want[i%2] = append(want[i%2], fmt.Sprintf("record %d", i))
	}
	got := readAll(t, gate)
	require.Equal(t, want[0], got[0])
	require.Equal(t, want[1], got[1])
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
	totals := d.Snapshot().Totals
	require.EqualValues(t, 1, totals.PartitionsCreated)
	require.EqualValues(t, p.BytesOut(), totals.BytesOut)
	require.EqualValues(t, p.BuffersOut(), totals.BuffersOut)
}

// Whoever looks at it, open buffers and finished ones in turn.
func TestBytesOutAreThoseThatWereWrittenHoweverOftenSomebodyLooks(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	p := create(t, c, s)
	for range 10 {
		require.NoError(t, p.EmitRecord(testContext(t), framed("a record"), 0))
		d.Snapshot()
		require.NoError(t, p.BroadcastEvent(testContext(t), shuffle.CustomEvent{Name: "ends the buffer"}))
		now := d.Snapshot()
		require.EqualValues(t, p.BytesOut(), now.Totals.BytesOut)
		require.Equal(t, now.Totals.BytesOut, now.Partitions[0].BytesOut)
	}
}
