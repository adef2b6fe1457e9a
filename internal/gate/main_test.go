package gate_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// How long a condition may take to come true before a test fails, and how often
// it is looked at.
const (
	wait = time.Minute
	tick = time.Millisecond
)

var overMemories = linktest.OverMemories

var newRandom = linktest.NewRandom

const segmentSize = 64

// newGate returns a gate and the partitions of its channels, each with one
// subpartition.
func newGate(t testing.TB, memory linktest.Memory, channels int) (*linktest.Gate, []*linktest.Link) {
	t.Helper()
	g := linktest.NewGate(t, memory, channels)
	var links []*linktest.Link
	for channel := range channels {
		links = append(links, newLink(t, memory))
		g.Attach(channel, links[channel], 0)
	}
	return g, links
}

func newLink(t testing.TB, memory linktest.Memory) *linktest.Link {
	t.Helper()
	return linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 1, Segments: 8, SegmentSize: segmentSize})
}

// emit writes n bytes to the only subpartition of a link.
func emit(t testing.TB, l *linktest.Link, n int) {
	t.Helper()
	require.NoError(t, l.Partition.EmitRecord(context.Background(), bytes.Repeat([]byte{byte(n)}, n), 0))
}

func finish(t testing.TB, l *linktest.Link) {
	t.Helper()
	require.NoError(t, l.Partition.Finish(context.Background()))
}

func sendEvent(t testing.TB, l *linktest.Link, e shuffle.Event) {
	t.Helper()
	require.NoError(t, l.Partition.BroadcastEvent(context.Background(), e))
}

// canceled is a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// An element is what a gate delivered, without the buffer.
type element struct {
	channel int
	typ     memseg.DataType
	size    int
}

func buffer(channel, size int) element   { return element{channel, memseg.DataBuffer, size} }
func endOfPartition(channel int) element { return element{channel, memseg.EndOfPartition, 4} }
func next(t testing.TB, g *linktest.Gate) element {
	t.Helper()
	b, err := g.Next(context.Background())
	require.NoError(t, err)
	return released(t, b)
}

func released(t testing.TB, b shuffle.BufferOrEvent) element {
	t.Helper()
	e := element{b.Channel, b.DataType(), b.Len()}
	require.NoError(t, b.Release())
	return e
}

// requireNothing says that nothing can be read now.
func requireNothing(t testing.TB, g *linktest.Gate) {
	t.Helper()
	_, ok, err := g.TryNext()
	require.NoError(t, err)
	require.False(t, ok)
}

// A barrier is an event of any type, for those that no public event has.
type barrier struct {
	shuffle.CustomEvent
	typ memseg.DataType
}

func (b barrier) DataType() memseg.DataType { return b.typ }

var (
	alignedBarrier = barrier{shuffle.CustomEvent{Name: "barrier"}, memseg.AlignedCheckpointBarrier}
	priorityEvent  = shuffle.CustomEvent{Name: "barrier", Priority: true}
)

const eventSize = 4 + 2 + len("barrier")

// host is a GateControl that does nothing.
type host struct{}

func (host) CloseGate() error { return nil }
