package partition_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/partition"
	"shuffled/internal/test/linktest"
	"shuffled/memseg"
	"shuffled/shuffle"
)

// What needs a new segment does not begin under a context that has ended, whatever
// is free.
func TestContextThatHasEndedIsSeenWithEachNewSegment(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		cause := errors.New("the user gave up")
		ended, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		for name, write := range waysToWrite {
			link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 12, SegmentSize: 64})
			p, view := link.Partition, link.View(0)
			for _, n := range []int{64, 200} {
				err := write(ended, p, n)
				require.ErrorIs(t, err, context.Canceled, name)
				require.ErrorIs(t, err, cause, name)
			}
			require.NoError(t, write(context.Background(), p, 30))
			require.ErrorIs(t, write(ended, p, 64), context.Canceled, "the open buffer has no room for it")
			require.NoError(t, p.FlushAll())
			sizes, _ := drain(t, view)
			require.Equal(t, []int{30}, sizes, "%s: nothing of the others was written", name)
			require.NoError(t, write(context.Background(), p, 64), "the partition goes on")

			require.ErrorIs(t, p.BroadcastEvent(ended, shuffle.CustomEvent{}), context.Canceled)
			_, types := drain(t, view)
			require.NotContains(t, types, event)
		}
	})
}

// start starts a record and leaves it.
func start(ctx context.Context, p *partition.ResultPartition, size, subpartition int) error {
	open, dst, err := p.StartRecord(ctx, memseg.PlaceOf(&size), size, subpartition)
	if dst != nil {
		open.Leave()
	}
	return err
}

func TestSecondGoroutineIsRefusedBeforeItHasWrittenAnything(t *testing.T) {
	overMemories(t, func(t *testing.T, memory linktest.Memory) {
		link := linktest.New(t, linktest.Config{Memory: memory, Subpartitions: 2, Segments: 3, SegmentSize: 64})
		p, view := link.Partition, link.View(0)
		for range 3 {
			emit(t, p, 64, 0)
		}
		ctx := context.Background()
		blocked := make(chan error)
		go func() { blocked <- p.EmitRecord(ctx, []byte("the first goroutine's"), 0) }()
		require.Eventually(t, link.IsParked, wait, tick)
		_, reserved := p.Reserve(ctx, 1, 10)
		for name, err := range map[string]error{
			"emit": p.EmitRecord(ctx, []byte("x"), 1), "broadcast": p.BroadcastRecord(ctx, []byte("x")),
			"event": p.BroadcastEvent(ctx, shuffle.CustomEvent{}), "finish": p.Finish(ctx),
			"start":   start(ctx, p, 10, 1),
			"reserve": reserved,
		} {
			require.ErrorIs(t, err, shuffle.ErrConcurrentUse, name)
		}
		for _, flush := range []func(int) error{p.Flush, p.PublishOpen, p.FlushOpen} {
			require.NoError(t, flush(0), "anybody may flush, and what is written is")
		}
		for range 3 {
			require.Equal(t, 64, poll(t, view).size)
		}
		require.NoError(t, <-blocked)
		require.NoError(t, p.Finish(ctx))
		content, _ := take(t, view)
		require.Equal(t, "the first goroutine's", string(content))
		require.Equal(t, 1, p.Subpartition(1).QueuedBuffers(), "its end alone")
	})
}

func TestCloseWakesAWriterAndOthersGetErrClosed(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 1, Segments: 1, SegmentSize: 64})
	p := link.Partition
	emit(t, p, 64, 0)
	blocked := make(chan error)
	go func() { blocked <- p.EmitRecord(context.Background(), []byte("x"), 0) }()
	require.Eventually(t, link.IsParked, wait, tick)
	require.NoError(t, p.Close())
	require.ErrorIs(t, <-blocked, shuffle.ErrClosed)
	require.ErrorIs(t, p.EmitRecord(context.Background(), []byte("x"), 0), shuffle.ErrClosed)
	require.ErrorIs(t, p.ClaimWriter(), shuffle.ErrClosed)
}

// A panicking context stands for whatever panics inside of a call.
type panicking struct{ context.Context }

func (panicking) Done() <-chan struct{} { panic("broken") }

func TestPanicLeavesARecordWholeOrThePartitionEnded(t *testing.T) {
	for name, write := range map[string]func(ctx context.Context, p *partition.ResultPartition, n int) error{
		"emit": waysToWrite["emit"], "broadcast": waysToWrite["broadcast"],
	} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 1, Segments: 2, SegmentSize: 64})
		p, view := link.Partition, link.View(0)
		require.NoError(t, write(context.Background(), p, 128))
		require.Panics(t, func() { _ = write(panicking{context.Background()}, p, 10) }, "before it has begun")
		sizes, _ := drain(t, view)
		require.Equal(t, []int{64, 64}, sizes, name)
		require.NoError(t, write(context.Background(), p, 10), "the partition goes on")

		require.Panics(t, func() { _ = write(panicking{context.Background()}, p, 1000) })
		for _, err := range []error{write(context.Background(), p, 1), p.Finish(context.Background())} {
			require.ErrorContains(t, err, "record cut by: a panic", name)
		}
		_, types := drain(t, view)
		require.NotContains(t, types, memseg.EndOfPartition)
		require.NoError(t, p.Fail(context.Background(), errors.New("told")))
	}
}

func TestFaultOfTheMappingEndsThePartitionAndNotTheProcess(t *testing.T) {
	ctx := context.Background()
	for name, call := range map[string]func(p *partition.ResultPartition) error{
		"emit":      func(p *partition.ResultPartition) error { return p.EmitRecord(ctx, make([]byte, 5000), 0) },
		"start":     func(p *partition.ResultPartition) error { return start(ctx, p, 4096, 0) },
		"reserve":   func(p *partition.ResultPartition) error { _, err := p.Reserve(ctx, 0, 4092); return err },
		"publish":   func(p *partition.ResultPartition) error { p.OpenBuffer(0).Advance(1); return p.PublishOpen(0) },
		"broadcast": func(p *partition.ResultPartition) error { return p.BroadcastRecord(ctx, make([]byte, 10)) },
		"event":     func(p *partition.ResultPartition) error { return p.BroadcastEvent(ctx, shuffle.CustomEvent{}) },
		"priority event": func(p *partition.ResultPartition) error {
			return p.BroadcastEvent(ctx, shuffle.CustomEvent{Priority: true})
		},
		"finish": func(p *partition.ResultPartition) error { return p.Finish(ctx) },
		"flush":  func(p *partition.ResultPartition) error { p.OpenBuffer(0).Advance(1); return p.FlushAll() },
	} {
		link := linktest.New(t, linktest.Config{Memory: linktest.Mapped, Subpartitions: 2, Segments: 4,
			SegmentSize: 4096})
		p := link.Partition
		emit(t, p, 4000, 0)
		link.LoseMemory()
		err := call(p)
		require.ErrorIs(t, err, memseg.ErrFault, name)
		require.ErrorContains(t, err, p.ID().String(), name)
		require.ErrorIs(t, p.EmitRecord(ctx, []byte("x"), 1), memseg.ErrFault, "%s: it has ended", name)
		require.ErrorIs(t, p.Finish(ctx), memseg.ErrFault, name)
		require.Zero(t, link.Host.Finished)
		require.NoError(t, p.Close(), "no lock is held")
	}
}

func TestWaitSaysWhoHasTheSegmentsAndWhatWouldHelp(t *testing.T) {
	link := linktest.New(t, linktest.Config{Memory: linktest.Heap, Subpartitions: 4, Segments: 6, SegmentSize: 64})
	p := link.Partition
	for range 5 {
		emit(t, p, 64, 2)
	}
	emit(t, p, 64, 1)
	err := p.EmitRecord(impatient(), make([]byte, 64), 3)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err,
		"wait for a free segment for subpartition 3: 6 of the pool's 6 are in use, most of them, 5, by subpartition 2, for which no consumer has come yet")
	link.View(2)
	require.ErrorContains(t, p.EmitRecord(impatient(), make([]byte, 64), 3),
		"by subpartition 2, whose consumer has to read and release them")
	require.ErrorContains(t, p.BroadcastRecord(impatient(), make([]byte, 64)),
		"wait for a free segment for all subpartitions")
}
