//go:build race || schedules

package schedules

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/internal/gate"
	"shuffled/internal/partition"
	"shuffled/internal/test/leaktest"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// runTest is the TB of one run.
type runTest struct {
	t        *testing.T
	cleanups []func()
}

func (r *runTest) Helper()                   { r.t.Helper() }
func (r *runTest) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *runTest) Errorf(s string, a ...any) { r.t.Errorf(s, a...) }
func (r *runTest) FailNow()                  { r.t.FailNow() }

func (r *runTest) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

// errPeer is what the control connection tells.
var errPeer = errors.New("the peer is lost")

// A scenario is a producer's program, and what its consumer must have read when
// nobody can go on.
type scenario struct {
	name     string
	segments int
	write    func(ctx context.Context, p *partition.ResultPartition) error
	read     []string // elements: data joined, events by name
	end      error    // of the consumer; nil if it still waits
	failed   error    // of the producer
	control  func(g *gate.InputGate, p *partition.ResultPartition)
}

const segmentSize = 16

// record is a record that fills half a segment with its length prefix.
func record(text string) []byte { return []byte("\x00\x00\x00\x04" + text) }

func emit(ctx context.Context, p *partition.ResultPartition, records ...string) error {
	for _, r := range records {
		if err := p.EmitRecord(ctx, record(r), 0); err != nil {
			return err
		}
	}
	return nil
}

var scenarios = []scenario{
	{
		name: "records and the end", segments: 4,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			return errors.Join(emit(ctx, p, "aaaa", "bbbb", "cccc"), p.Finish(ctx))
		},
		read: []string{"aaaabbbbcccc"}, end: io.EOF,
	},
	{
		name: "flushes and then silence", segments: 4,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			return errors.Join(emit(ctx, p, "aaaa"), p.FlushAll(), emit(ctx, p, "bbbb", "cccc"), p.FlushAll(),
				p.FlushAll())
		},
		read: []string{"aaaabbbbcccc"},
	},
	{
		name: "event and then silence", segments: 4,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			return errors.Join(emit(ctx, p, "aaaa"), p.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "event"}))
		},
		read: []string{"aaaa", "event"},
	},
	{
		name: "priority event", segments: 4,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			return p.BroadcastEvent(ctx, shuffle.CustomEvent{Name: "event", Priority: true})
		},
		read: []string{"event"},
	},
	{
		name: "full pool", segments: 2,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			return errors.Join(emit(ctx, p, "aaaa", "bbbb", "cccc", "dddd", "eeee"), p.Finish(ctx))
		},
		read: []string{"aaaabbbbccccddddeeee"}, end: io.EOF,
	},
	{
		name: "events before a full pool", segments: 2,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			event := shuffle.CustomEvent{Name: "event"}
			return errors.Join(p.BroadcastEvent(ctx, event), emit(ctx, p, "aaaa", "bbbb", "cccc", "dddd", "eeee"),
				p.FlushAll())
		},
		read: []string{"event", "aaaabbbbccccddddeeee"},
	},
	{
		name: "producer lost", segments: 4,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			return emit(ctx, p, "aaaa", "bbbb", "cccc")
		},
		control: func(g *gate.InputGate, _ *partition.ResultPartition) {
			g.FailChannel(0, errPeer)
		},
		end: errPeer,
	},
	{
		name: "partition released while the writer waits", segments: 2,
		write: func(ctx context.Context, p *partition.ResultPartition) error {
			return emit(ctx, p, "aaaa", "bbbb", "cccc", "dddd", "eeee")
		},
		control: func(_ *gate.InputGate, p *partition.ResultPartition) { p.EndedByHost(shuffle.ErrPartitionReleased) },
		failed:  shuffle.ErrPartitionReleased,
	},
}

// newRun sets a scenario up.
func (s *scenario) newRun(t *testing.T) (run, func()) {
	tb := &runTest{t: t}
	link := linktest.New(tb, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: s.segments,
		Required: min(2, s.segments), SegmentSize: segmentSize})
	gate := link.Gate(0)
	ctx, cancel := context.WithCancel(context.Background())

	var read []string
	var readErr, writeErr error
	var hasRead, hasWritten bool
	reads := func() {
		defer func() { hasRead = true }()
		lastIsData := false
		for {
			b, err := gate.Next(ctx)
			if err != nil {
				readErr = err
				return
			}
			if b.IsEvent() {
				event, err := b.Event()
				if custom, ok := event.(shuffle.CustomEvent); ok {
					read, lastIsData = append(read, custom.Name), false
				} else if err != nil {
					read = append(read, err.Error())
				}
			} else {
				var text string
				for rest := b.Bytes(); len(rest) >= 8; rest = rest[8:] {
					text += string(rest[4:8])
				}
				if !lastIsData {
					read = append(read, "")
				}
				read[len(read)-1] += text
				lastIsData = true
			}
			if err := b.Release(); err != nil {
				readErr = err
				return
			}
		}
	}
	writes := func() {
		defer func() { hasWritten = true }()
		writeErr = s.write(ctx, link.Partition)
	}
	r := run{
		threads: []program{{name: "producer", do: writes}, {name: "consumer", do: reads}},
		stop:    cancel,
		judge: func() error {
			switch {
			case !hasWritten:
				return fmt.Errorf("the producer sleeps; %q was read", read)
			case s.control == nil && writeErr != nil:
				return fmt.Errorf("the producer: %w", writeErr)
			case s.failed != nil && writeErr != nil && !errors.Is(writeErr, s.failed):
				return fmt.Errorf("the producer: got %w, want %w", writeErr, s.failed)
			case s.end != nil && !hasRead:
				return fmt.Errorf("the consumer sleeps after %q", read)
			case hasRead && !errors.Is(readErr, s.end):
				return fmt.Errorf("the consumer: got %w, want %w", readErr, s.end)
			case s.read != nil && !slices.Equal(read, s.read):
				return fmt.Errorf("%q was read, want %q", read, s.read)
			}
			return nil
		},
	}
	if s.control != nil {
		r.threads = append(r.threads,
			program{name: "control", oneStep: true, do: func() { s.control(gate, link.Partition) }})
	}
	return r, func() {
		cancel()
		tb.end()
	}
}

func TestHandOverInEveryOrder(t *testing.T) {
	preemptions, randomRuns := 2, 500
	if n, err := strconv.Atoi(os.Getenv("SHUFFLED_PREEMPTIONS")); err == nil {
		preemptions, randomRuns = n, 100_000
	}
	if testing.Short() {
		preemptions = 1
	}
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			if given, err := strconv.ParseUint(os.Getenv("SHUFFLED_TEST_SEED"), 10, 64); err == nil {
				seed = given
			}
			t.Logf("SHUFFLED_TEST_SEED=%d", seed)
			explore(t, preemptions, randomRuns, rand.New(rand.NewPCG(seed, 0)),
				func() (run, func()) { return s.newRun(t) })
		})
	}
	require.NotNil(t, memseg.SetScheduler) // the build has one
}
