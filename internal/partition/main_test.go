package partition_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
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

// emit writes n bytes to a subpartition.
func emit(t testing.TB, p *partition.ResultPartition, n, subpartition int) {
	t.Helper()
	require.NoError(t, p.EmitRecord(context.Background(), bytes.Repeat([]byte{byte(n)}, n), subpartition))
}

// broadcast writes n bytes to all subpartitions.
func broadcast(t testing.TB, p *partition.ResultPartition, n int) {
	t.Helper()
	require.NoError(t, p.BroadcastRecord(context.Background(), bytes.Repeat([]byte{byte(n)}, n)))
}

func sendEvent(t testing.TB, p *partition.ResultPartition, e shuffle.Event) {
	t.Helper()
	require.NoError(t, p.BroadcastEvent(context.Background(), e))
}

// canceled is a context that has ended.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// impatient is a context for a call that must not wait.
var impatient = linktest.Impatient

// polled is what a poll has taken, without the buffer.
type polled struct {
	size int
	typ  memseg.DataType
}

// nothing is the result of a poll that finds nothing.
var nothing = polled{size: -1}

// poll takes the next element of a view and releases it at once.
func poll(t testing.TB, v *partition.SubpartitionView) polled {
	t.Helper()
	b := &memseg.Buffer{}
	ok, err := v.Take(b)
	require.NoError(t, err)
	if !ok {
		return nothing
	}
	p := polled{size: b.Len(), typ: b.DataType()}
	require.NoError(t, b.Release())
	return p
}

// take returns a copy of the next element's bytes and its type, nil and
// NoDataType if there is none.
func take(t testing.TB, v *partition.SubpartitionView) ([]byte, memseg.DataType) {
	t.Helper()
	b := &memseg.Buffer{}
	ok, err := v.Take(b)
	require.NoError(t, err)
	if !ok {
		return nil, memseg.NoDataType
	}
	content := bytes.Clone(b.Bytes())
	require.NoError(t, b.Release())
	return content, b.DataType()
}

// drain takes everything that can be read, and returns the sizes of the data
// buffers and the types of all elements.
func drain(t testing.TB, v *partition.SubpartitionView) (sizes []int, types []memseg.DataType) {
	t.Helper()
	for {
		content, typ := take(t, v)
		if typ == memseg.NoDataType {
			return sizes, types
		}
		if typ.IsBuffer() {
			sizes = append(sizes, len(content))
		}
		types = append(types, typ)
	}
}

// hold takes the next element and keeps it.
func hold(t testing.TB, v *partition.SubpartitionView) *memseg.Buffer {
	t.Helper()
	b := &memseg.Buffer{}
	ok, err := v.Take(b)
	require.NoError(t, err)
	require.True(t, ok)
	return b
}

// A barrier is an event of any type, for those that no public event has.
type barrier struct {
	shuffle.CustomEvent
	typ memseg.DataType
}

func (b barrier) DataType() memseg.DataType { return b.typ }

func newBarrier(typ memseg.DataType) barrier {
	return barrier{shuffle.CustomEvent{Name: "barrier"}, typ}
}

// sizeOf is the size of an event in its slot.
func sizeOf(t testing.TB, e shuffle.Event) int {
	t.Helper()
	content, err := shuffle.EncodeEvent(e)
	require.NoError(t, err)
	return len(content)
}
