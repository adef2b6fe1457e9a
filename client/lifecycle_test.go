package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/daemon"
	"shuffled/internal/test/leaktest"
	"shuffled/ipc/controlpb"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestCreateRefusesWhatCannotBe(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	with := func(change func(s *shuffle.PartitionSpec)) shuffle.PartitionSpec {
		s := spec(2)
		change(&s)
		return s
	}
	existing := spec(1)
	create(t, c, existing)
	for name, test := range map[string]struct {
		spec shuffle.PartitionSpec
		want error
		text string
	}{
		"zero id":                 {shuffle.PartitionSpec{Subpartitions: 1}, shuffle.ErrInvalidArgument, "ID"},
		"no subpartition":         {spec(0), shuffle.ErrInvalidArgument, "Subpartitions is 0"},
		"a million subpartitions": {spec(1_000_000), shuffle.ErrInvalidArgument, "Subpartitions is 1000000"},
		"unknown type": {with(func(s *shuffle.PartitionSpec) { s.Type = 9 }), shuffle.ErrInvalidArgument,
			"type 9"},
		"twice":              {existing, shuffle.ErrAlreadyExists, existing.ID.String()},
		"more than there is": {spec(4096), shuffle.ErrInsufficientBuffers, "required 4097, but only 4094 available"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.CreatePartition(testContext(t), test.spec)
			require.ErrorIs(t, err, test.want)
			require.ErrorContains(t, err, test.text)
		})
	}
	for name, s := range map[string]shuffle.GateSpec{
		"no inputs":         {},
		"zero id":           {Inputs: make([]shuffle.Input, 1)},
		"negative":          gateOf(existing.ID, -1),
		"a million":         gateOf(existing.ID, 1_000_000),
		"too long a name":   {Inputs: gateOf(existing.ID, 0).Inputs, Name: string(make([]byte, 129))},
		"negative time-out": {Inputs: gateOf(existing.ID, 0).Inputs, Timeout: -1},
	} {
		_, err := c.OpenGate(testContext(t), s)
		require.ErrorIs(t, err, shuffle.ErrInvalidArgument, name)
	}
	_, err := nextError(t, openOne(t, c, existing.ID, 1))
	require.ErrorIs(t, err, shuffle.ErrInvalidArgument)
	require.ErrorContains(t, err, "subpartition 1, want 0 to 0")
	require.Len(t, d.Snapshot().Partitions, 1, "nothing else is left")
}

func TestNewerAttemptFencesTheOlder(t *testing.T) {
	d := startDaemon(t, testConfig())
	one, two, consumer := d.dial(t), d.dial(t), d.dial(t)
	s := spec(1)
	first := create(t, one, s)
	gate := openOne(t, consumer, s.ID, 0)
	require.NoError(t, first.EmitRecord(testContext(t), framed("loser"), 0))
	require.NoError(t, first.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, b.Release())

	s.Attempt = 1
	second := create(t, two, s)
	_, err = nextError(t, gate)
	require.ErrorIs(t, err, shuffle.ErrFenced)
	require.ErrorIs(t, first.Finish(testContext(t)), shuffle.ErrFenced)
	again := openOne(t, consumer, s.ID, 0)
	require.NoError(t, second.EmitRecord(testContext(t), framed("winner"), 0))
	require.NoError(t, second.Finish(testContext(t)))
	require.Equal(t, []string{"winner"}, readAll(t, again)[0])
	require.Eventually(t, func() bool { // once the daemon has heard that it is consumed
		_, err = one.CreatePartition(testContext(t), s)
		return !errors.Is(err, shuffle.ErrAlreadyExists)
	}, patience, time.Millisecond)
	require.ErrorIs(t, err, shuffle.ErrFenced)
}

func TestLimitsAreNamedAndTheirSlotsComeBack(t *testing.T) {
	config := testConfig()
	config.Limits = daemon.Limits{Partitions: 2, Gates: 2, InputsPerGate: 3, Connections: 2, MemoryPerUID: 4 << 20}
	d := startDaemon(t, config)
	c := d.dial(t)
	ctx := testContext(t)
	for range 3 {
		s1, s2 := spec(1), spec(1)
		p1, p2 := create(t, c, s1), create(t, c, s2)
		_, err := c.CreatePartition(ctx, spec(1))
		require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
		require.ErrorContains(t, err,
			fmt.Sprintf("limit --max-partitions of the daemon: 2 in use (2 by uid %d) and 1 more, limit 2: raise it",
				os.Geteuid()))
		g1, g2 := openOne(t, c, s1.ID, 0), openOne(t, c, s2.ID, 0)
		_, err = c.OpenGate(ctx, gateOf(s1.ID, 0))
		require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
		require.ErrorContains(t, err, "limit --max-gates of the daemon")
		require.NotContains(t, err.Error(), `gate ""`, "it has no name")
		_, err = c.OpenGate(ctx, gateOf(s1.ID, 0, 1, 2, 3))
		require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
		require.ErrorContains(t, err, "--max-inputs-per-gate")
		for _, p := range []shuffle.ResultPartition{p1, p2} {
			require.NoError(t, p.Close())
		}
		for _, g := range []shuffle.InputGate{g1, g2} {
			require.NoError(t, g.Close())
		}
		d.requireIdle(t)

		other := d.dial(t)
		_, err = Dial(ctx, WithSocket(d.path))
		require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
		require.ErrorContains(t, err, "limit --max-connections of the daemon")
		require.NoError(t, other.Close())
		require.Eventually(t, func() bool { return d.Snapshot().Connections == 1 }, patience, time.Millisecond)
	}
}

func TestMemoryQuotaShrinksAPartitionToWhatItRequires(t *testing.T) {
	config := testConfig()
	config.Limits.MemoryPerUID = 1 << 20
	d := startDaemon(t, config)
	c := d.dial(t)
	s := spec(1)
	s.Type = shuffle.Pipelined // as much as there is
	create(t, c, s)
	info, err := c.Inspect(testContext(t), s.ID)
	require.NoError(t, err)
	require.Less(t, info.PoolMax, 256)
	require.Greater(t, info.PoolMax, 200)
	_, err = c.CreatePartition(testContext(t), spec(1))
	require.ErrorIs(t, err, shuffle.ErrQuotaExceeded)
	require.ErrorContains(t, err, "limit --max-memory-per-uid of the daemon")
}

func TestStrictIsolationForbidsNewWriters(t *testing.T) {
	config := testConfig()
	config.Isolation = daemon.StrictIsolation
	d := startDaemon(t, config)
	producer, consumer := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, producer, s)
	gate := openOne(t, consumer, s.ID, 0)
	go func() {
		for i := range 20_000 {
			if err := p.EmitRecord(context.Background(), framed("record"), 0); err != nil {
				t.Error(i, err)
				return
			}
		}
		if err := p.Finish(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	require.Len(t, readAll(t, gate)[0], 20_000)
	require.Eventually(t, func() bool { return d.Snapshot().Partitions[0].State == "consumed" }, patience,
		time.Millisecond)
	require.Len(t, d.Snapshot().Partitions, 1, "its producer can still write it")
	require.NoError(t, p.Close())
	require.NoError(t, gate.Close())
	d.requireIdle(t)
}

func TestEmbeddedDaemonIsTheSame(t *testing.T) {
	leaktest.Check(t)
	c, err := Embedded(EmbeddedConfig{Memory: 16 << 20, SegmentSize: 4096})
	require.NoError(t, err)
	require.Equal(t, 4096, c.Daemon().SegmentSize)
	s := spec(2)
	p := create(t, c, s)
	gate, err := c.OpenGate(testContext(t), gateOf(s.ID, 0, 1))
	require.NoError(t, err)
	require.NoError(t, p.BroadcastRecord(testContext(t), framed("to all")))
	require.NoError(t, p.Finish(testContext(t)))
	require.Equal(t, map[int][]string{0: {"to all"}, 1: {"to all"}}, readAll(t, gate))
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	require.NoError(t, c.Close())
	require.ErrorIs(t, c.Close(), shuffle.ErrClosed)
	_, err = c.CreatePartition(testContext(t), spec(1))
	require.ErrorIs(t, err, shuffle.ErrClosed)
	_, err = c.OpenGate(testContext(t), gateOf(s.ID, 0))
	require.ErrorIs(t, err, shuffle.ErrClosed)
	_, err = c.List(testContext(t))
	require.ErrorIs(t, err, shuffle.ErrClosed)
}

func TestClosingTheClientFirstLeavesGateAndPartitionToClose(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	p := create(t, c, s)
	gate := openOne(t, c, s.ID, 0)
	require.NoError(t, p.EmitRecord(testContext(t), framed("x"), 0))
	require.NoError(t, p.FlushAll())
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, c.Close())
	require.Equal(t, string(framed("x")), string(b.Bytes()))
	require.NoError(t, b.Release())
	require.NotZero(t, memseg.LiveMappings())
	for name, call := range map[string]func() error{
		"emit":    func() error { return p.EmitRecord(testContext(t), framed("x"), 0) },
		"flush":   func() error { return p.Flush(0) },
		"all":     p.FlushAll,
		"event":   func() error { return p.BroadcastEvent(testContext(t), shuffle.CustomEvent{Name: "x"}) },
		"finish":  func() error { return p.Finish(testContext(t)) },
		"fail":    func() error { return p.Fail(testContext(t), io.ErrUnexpectedEOF) },
		"release": func() error { return p.Release(testContext(t)) },
		"next":    func() error { _, err := gate.Next(testContext(t)); return err },
		"try":     func() error { _, _, err := gate.TryNext(); return err },
		"resume":  func() error { return gate.ResumeConsumption(0) },
	} {
		err := call()
		require.ErrorIs(t, err, shuffle.ErrClosed, name)
		require.NotErrorIs(t, err, shuffle.ErrDaemonLost, name)
		require.ErrorContains(t, err, "client", name)
	}
	require.NoError(t, gate.Close())
	require.NoError(t, p.Close())
	d.requireIdle(t)
}

// A daemon that goes on without a client has told the others that it is gone, and
// they use its memory anew: it must not read or write any more.
func TestAClientThatTheDaemonGivesUpReadsAndWritesNothingMore(t *testing.T) {
	d := startDaemon(t, testConfig())
	c, other := d.dial(t), d.dial(t)
	s := spec(1)
	p := create(t, c, s)
	theirs := spec(1)
	theirs.OnConsumerLost = shuffle.DiscardOnConsumerLost
	feeding := create(t, other, theirs)
	gate := openOne(t, c, theirs.ID, 0)
	for range 3 {
		require.NoError(t, feeding.EmitRecord(testContext(t), framed(string(make([]byte, 4000))), 0))
	}
	b, err := gate.Next(testContext(t))
	require.NoError(t, err)
	require.NoError(t, b.Release())
	c.post(
		&controlpb.ClientMessage{
			Body: &controlpb.ClientMessage_ClosePartition{ClosePartition: &controlpb.ClosePartition{Epoch: 1}},
		},
	)
	require.Eventually(t, func() bool {
		b, ok, err := gate.TryNext()
		if ok {
			require.NoError(t, b.Release())
		}
		if err != nil && !errors.Is(err, shuffle.ErrDaemonLost) {
			require.ErrorIs(t, err, shuffle.ErrConsumerLost, "shared memory may tell it before the connection does")
		}
		return errors.Is(err, shuffle.ErrDaemonLost)
	}, patience, time.Millisecond)
	for range 2 {
		_, err = gate.Next(testContext(t))
		require.ErrorIs(t, err, shuffle.ErrDaemonLost)
		require.ErrorContains(t, err, "the daemon has given up this client")
		require.ErrorContains(t, err, "close_partition.epoch")
		require.ErrorIs(t, p.EmitRecord(testContext(t), framed("x"), 0), shuffle.ErrDaemonLost)
	}
}

// Also if the daemon was lost before: the client's own end is what its user did.
func TestAClosedClientSaysSoWhateverCameBefore(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	p := create(t, c, s)
	gate := openOne(t, c, s.ID, 0)
	require.NoError(t, d.Close())
	require.Eventually(t, func() bool {
		_, err := c.List(testContext(t))
		return errors.Is(err, shuffle.ErrDaemonLost)
	}, patience, time.Millisecond)
	waiting := make(chan error, 1)
	go func() {
		for {
			if _, err := gate.Next(testContext(t)); !errors.Is(err, shuffle.ErrDaemonLost) {
				waiting <- err
				return
			}
		}
	}()
	require.NoError(t, c.Close())
	_, err := c.List(testContext(t))
	_, createErr := c.CreatePartition(testContext(t), spec(1))
	_, nextErr := c.NextAttempt(testContext(t), s.ID)
	for _, err := range []error{<-waiting, err, createErr, nextErr, p.Finish(testContext(t)), c.Close()} {
		require.ErrorIs(t, err, shuffle.ErrClosed)
		require.NotErrorIs(t, err, shuffle.ErrDaemonLost)
	}
}

func TestDrainWaitsForPartitionsAndRefusesNewOnes(t *testing.T) {
	d := startDaemon(t, testConfig())
	c := d.dial(t)
	s := spec(1)
	p := create(t, c, s)
	gate := openOne(t, c, s.ID, 0)
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	require.ErrorIs(t, d.Drain(ended), context.Canceled)
	_, err := c.CreatePartition(testContext(t), spec(1))
	require.ErrorIs(t, err, shuffle.ErrDraining)
	require.NotErrorIs(t, err, shuffle.ErrClosed)
	late, err := c.OpenGate(testContext(t), gateOf(s.ID, 0))
	require.NoError(t, err, "reading partitions is what ends them")
	require.NoError(t, late.Close())
	drained := make(chan error, 1)
	go func() { drained <- d.Drain(testContext(t)) }()
	require.NoError(t, p.EmitRecord(testContext(t), framed("goes on"), 0))
	require.NoError(t, p.Finish(testContext(t)))
	require.Equal(t, []string{"goes on"}, readAll(t, gate)[0])
	require.NoError(t, <-drained)
}
