package torture

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/client"
	"shuffled/internal/test/daemontest"
	"shuffled/shuffle"
	"shuffled/writer"
)

// watchdog is how long a round may take. It is a detector of hangs.
const watchdog = 60 * time.Second

// A round is a set of producers and consumers, each reading a subpartition of
// every producer, some of which are killed.
type round struct {
	t         *testing.T
	daemon    *daemontest.Daemon
	client    *client.Client // of the test, which does what a scheduler would
	producers []*producerPlan
	consumers []*consumerPlan
	victims   []victim

	workers []*worker // producers, then consumers
}

// A victim is a worker to kill.
type victim struct {
	worker int
	// after is when, from the start of the round or from the event on.
	after time.Duration
	// on is an event to wait for, if set.
	on string
	// stopFor is how long it is stopped before, 0 for not at all.
	stopFor time.Duration
}

func (v victim) String() string {
	return fmt.Sprintf("worker %d after %v of %q, stopped for %v", v.worker, v.after, v.on, v.stopFor)
}

// plan makes up a round.
func plan(t *testing.T, rng *rand.Rand, d *daemontest.Daemon, c *client.Client) *round {
	r := &round{t: t, daemon: d, client: c}
	producers, consumers := 1+rng.IntN(3), 1+rng.IntN(3)
	for i := range producers {
		p := &producerPlan{
			Partition: shuffle.NewPartitionID(), Records: 1000 + rng.Uint64N(14_000),
			Mode:            []string{emitting, emitting, reserving, broadcasting}[rng.IntN(4)],
			FloatingBuffers: []int{0, 1, 8}[rng.IntN(3)], Discard: rng.IntN(3) == 0,
			Timeout: []time.Duration{writer.FlushAlways, time.Millisecond, writer.DefaultBufferTimeout,
				writer.FlushNever}[rng.IntN(4)],
			FlushEvery: []uint64{20, 200, 1000}[rng.IntN(3)],
		}
		maxSize := 70_000 // over three segments
		if p.Mode == reserving {
			maxSize = 30_000
		}
		seed := rng.Uint64()
		for sub := range consumers {
			s := stream{Seed: seed, Producer: i, Subpartition: sub, MaxSize: maxSize}
			if p.Mode == broadcasting {
				s.Subpartition = 0
			}
			p.Streams = append(p.Streams, s)
		}
		r.producers = append(r.producers, p)
	}
	for sub := range consumers {
		c := &consumerPlan{}
		for _, p := range r.producers {
			c.Inputs = append(c.Inputs, shuffle.Input{Partition: p.Partition, Subpartition: sub})
			c.Streams = append(c.Streams, p.Streams[sub])
		}
		if rng.IntN(4) == 0 {
			c.PauseEvery = 100
		}
		if rng.IntN(4) == 0 {
			c.StartAfter = upTo(rng, 100*time.Millisecond)
		}
		if rng.IntN(10) == 0 {
			c.LeaveAfter = 1 + rng.Uint64N(3000)
		}
		r.consumers = append(r.consumers, c)
	}
	r.planVictims(rng)
	return r
}

func (r *round) planVictims(rng *rand.Rand) {
	all := len(r.producers) + len(r.consumers)
	count := []int{0, 1, 1, 1, 1, 1, 1, 1, 2, 2}[rng.IntN(10)]
	for _, w := range rng.Perm(all)[:min(count, all)] {
		v := victim{worker: w, after: upTo(rng, 120*time.Millisecond)}
		if rng.IntN(4) == 0 {
			v.stopFor = 1 + upTo(rng, 50*time.Millisecond)
		}
		if w < len(r.producers) {
			switch rng.IntN(6) {
			case 0, 1:
				v.on, v.after = holding, 0
				r.producers[w].HoldAt = 1 + rng.Uint64N(r.producers[w].Records-1)
			case 2:
				v.on, v.after = created, upTo(rng, 2*time.Millisecond)
			case 3:
				v.on, v.after = committed, upTo(rng, 50*time.Millisecond)
			}
		}
		r.victims = append(r.victims, v)
	}
}

// run runs the round to the end of all its processes and checks what they saw.
func (r *round) run(f *figures) {
	ctx, cancel := context.WithTimeout(context.Background(), watchdog)
	defer cancel()
	for i, p := range r.producers {
		r.workers = append(r.workers, startWorker(r.t, fmt.Sprintf("producer %d", i), r.daemon.Socket,
			workerPlan{Producer: p}))
	}
	for i, c := range r.consumers {
		r.workers = append(r.workers, startWorker(r.t, fmt.Sprintf("consumer %d", i), r.daemon.Socket,
			workerPlan{Consumer: c}))
	}
	var tasks sync.WaitGroup
	problems := make(chan error, len(r.workers)+len(r.victims))
	for _, v := range r.victims {
		tasks.Go(func() { r.kill(ctx, v) })
	}
	for i, w := range r.workers {
		tasks.Go(func() {
			select {
			case <-w.ended:
				problems <- r.bury(ctx, i)
			case <-ctx.Done():
			}
		})
	}
	tasks.Wait()
	close(problems)
	if ctx.Err() != nil {
		r.dump()
	}
	for err := range problems {
		require.NoError(r.t, err, r.report())
	}
	r.judge(f)
}

// kill kills a victim at its moment.
func (r *round) kill(ctx context.Context, v victim) {
	w := r.workers[v.worker]
	if v.on != "" {
		w.waitFor(v.on, ctx.Done())
	}
	sleep(ctx, v.after)
	if v.stopFor > 0 {
		w.signal(unix.SIGSTOP)
		sleep(ctx, v.stopFor)
	}
	w.signal(unix.SIGKILL)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// bury does what a scheduler would when a worker has ended: partitions that a
// producer did not create any more fail, and subpartitions that a consumer never
// asked for are read by another one.
func (r *round) bury(ctx context.Context, i int) error {
	w := r.workers[i]
	switch {
	case w.plan.Producer != nil && w.wasKilled():
		return r.failUncreated(ctx, w.plan.Producer)
	case w.plan.Consumer != nil && (w.wasKilled() || w.result().Left):
		return r.readInstead(ctx, w.plan.Consumer)
	}
	return nil
}

func (r *round) failUncreated(ctx context.Context, plan *producerPlan) error {
	p, err := r.client.CreatePartition(ctx, shuffle.PartitionSpec{ID: plan.Partition, Subpartitions: len(plan.Streams)})
	if errors.Is(err, shuffle.ErrAlreadyExists) || errors.Is(err, shuffle.ErrFenced) {
		return nil // it was created
	}
	if err != nil {
		return fmt.Errorf("fail in place of a killed producer: %w", err)
	}
	return errors.Join(p.Fail(ctx, errors.New("its producer was killed before it was created")), p.Close())
}

func (r *round) readInstead(ctx context.Context, plan *consumerPlan) error {
	gate, err := r.client.OpenGate(ctx, shuffle.GateSpec{Inputs: plan.Inputs, Timeout: time.Hour})
	if err != nil {
		return fmt.Errorf("read in place of a consumer that is gone: %w", err)
	}
	for {
		b, err := gate.Next(ctx)
		switch {
		case err == nil:
			if err := b.Release(); err != nil {
				return err
			}
		case errors.Is(err, io.EOF), errors.Is(err, shuffle.ErrIncomplete), ctx.Err() != nil:
			return gate.Close()
		case channelOfError.FindString(err.Error()) == "":
			return errors.Join(fmt.Errorf("read in place of a consumer that is gone: %w", err), gate.Close())
		}
	}
}

// result returns what a consumer saw, as far as it lived to tell.
func (w *worker) result() consumerResult {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.last == nil || w.last.Result == nil {
		return consumerResult{}
	}
	return *w.last.Result
}

// dump reports a round that hangs: the goroutines of everybody.
func (r *round) dump() {
	goroutines := r.daemon.Goroutines()
	for _, w := range r.workers {
		w.signal(unix.SIGCONT)
		w.signal(unix.SIGQUIT)
	}
	for _, w := range r.workers {
		select {
		case <-w.ended:
		case <-time.After(daemontest.Patience):
		}
	}
	require.Fail(r.t, "the round hangs", "%s\ndaemon:\n%s", r.report(), goroutines)
}

func (r *round) report() string {
	var text strings.Builder
	for _, v := range r.victims {
		fmt.Fprintf(&text, "victim: %v\n", v)
	}
	for i, p := range r.producers {
		fmt.Fprintf(&text, "plan of producer %d: %+v\n", i, *p)
	}
	for i, c := range r.consumers {
		fmt.Fprintf(&text, "plan of consumer %d: %+v\n", i, *c)
	}
	for _, w := range r.workers {
		fmt.Fprintln(&text, w.report())
	}
	return text.String()
}

// upTo returns a random time below most.
func upTo(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(int64(most)))
}
