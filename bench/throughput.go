package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"shuffled/bench/results"
	"shuffled/internal/units"
)

// A Throughput measures how many records a second transports carry from producer
// to consumer processes. The transports take turns, round by round.
type Throughput struct {
	Sizes      []int // of records, in bytes
	Transports []Transport
	Rounds     int
	// Duration is how long the producers of a round send.
	Duration             time.Duration
	Producers, Consumers int
	// Socket is that of the daemon; a daemon is started if it is empty and Shm is
	// measured.
	Socket   string
	Launcher Launcher
	// Observer watches the workers, unless it is nil.
	Observer Observer
	// Out gets every round as it ends.
	Out   io.Writer
	Fault Fault
}

// A plannedRound is one transport with one size.
type plannedRound struct {
	transport Transport
	size      int
}

// Run measures. A record that is not what was due, or missing, is ErrContent.
// With an error it also returns the rounds before it, if there are any, marked as
// partial. It ends all workers before it returns.
func (t *Throughput) Run(ctx context.Context) (*results.File, error) {
	file := results.New("throughput")
	fmt.Fprintf(t.Out, "machine: %v\n", file.Machine)
	plan := t.plan()
	if len(plan) == 0 {
		return nil, errors.New("no transport can do this: choose others with -transports")
	}
	var through *daemon
	if t.measures(plan, Shm) {
		d, err := findDaemon(ctx, t.Socket)
		if err != nil {
			return nil, err
		}
		defer d.stop()
		through = d
		fmt.Fprintf(t.Out, "daemon: %s\n", d.what)
	}
	total := time.Duration(len(plan)*t.Rounds) * t.Duration
	fmt.Fprintf(t.Out, "plan: %s and %s, a process each; %s of %v for each of %s, about %v\n",
		units.Plural(t.Producers, "producer"), units.Plural(t.Consumers, "consumer"), units.Plural(t.Rounds, "round"), t.Duration, units.Plural(len(plan), "combination"), total.Round(time.Second))
	disturbed := 0
	for round := range t.Rounds {
		for _, p := range plan {
			meter := startLoadMeter()
			r, workers, err := t.round(ctx, p, through)
			if err != nil {
				return file.End(fmt.Errorf("%s, %d bytes, round %d: %w", p.transport, p.size, round+1, err))
			}
			note := ""
			if others, ok := meter.others(workers); ok {
				r[results.OtherCores] = others
				if others >= disturbance {
					disturbed++
					note = fmt.Sprintf("  other programs used %.1f cores", others)
				}
			}
			fmt.Fprintf(t.Out, "round %d: %6d B %8s  %8s M records/s  %6.2f GB/s  %7.3f CPU s/GiB%s\n", round+1, p.size, p.transport,
				units.FormatMillions(r[results.RecordsPerS]), r[results.BytesPerS]/1e9, r[results.CPUSPerGiB], note)
			file.Add(results.Settings{Transport: string(p.transport), RecordSize: p.size, Producers: t.Producers, Consumers: t.Consumers}, r)
		}
	}
	if disturbed > 0 {
		fmt.Fprintf(t.Out, "%d of %d rounds were disturbed by other programs: run again on an idle machine\n", disturbed, t.Rounds*len(plan))
	}
	return file.End(nil)
}

// plan returns what takes turns, and says what is left out.
func (t *Throughput) plan() (plan []plannedRound) {
	for _, size := range t.Sizes {
		for _, transport := range t.Transports {
			if err := transport.check(size, t.Producers, t.Consumers); err != nil {
				fmt.Fprintf(t.Out, "left out: %s with %d bytes: %v\n", transport, size, err)
				continue
			}
			plan = append(plan, plannedRound{transport, size})
		}
	}
	return plan
}

func (t *Throughput) measures(plan []plannedRound, transport Transport) bool {
	for _, p := range plan {
		if p.transport == transport {
			return true
		}
	}
	return false
}

// round runs one transport once. It also returns the processor time of the
// workers' whole lives.
func (t *Throughput) round(ctx context.Context, p plannedRound, through *daemon) (results.Round, time.Duration, error) {
	crew := newCrew(t.Launcher)
	crew.observer = t.Observer
	defer crew.abandon()
	e := Exchange{Name: newExchangeName(), Producers: t.Producers, Consumers: t.Consumers}
	if p.transport == Shm {
		e.Socket, crew.daemon = through.socket, through
	}
	if err := t.start(crew, p, e); err != nil {
		return nil, 0, err
	}
	done, err := crew.wait(ctx, nil)
	if err != nil {
		return nil, 0, err
	}
	r, err := t.evaluate(p, done)
	if err != nil {
		return nil, 0, err
	}
	return r, crew.processorTime(), t.observe(r, p, done)
}

// observe adds what the observer saw of a round.
func (t *Throughput) observe(r results.Round, p plannedRound, done []result) error {
	if t.Observer == nil {
		return nil
	}
	payload := int64(0)
	for _, consumer := range done[t.Producers:] {
		payload += consumer.Records * int64(p.size)
	}
	seen, err := t.Observer.End(payload)
	if err != nil {
		return fmt.Errorf("observe workers: %w", err)
	}
	maps.Copy(r, seen)
	return nil
}

// evaluate works out the rates of a round.
func (t *Throughput) evaluate(p plannedRound, done []result) (results.Round, error) {
	var sent, received int64
	var consumers, all []Span
	for i, r := range done {
		all = append(all, r.Span)
		if i < t.Producers {
			sent += r.Records
		} else {
			received += r.Records
			consumers = append(consumers, r.Span)
		}
	}
	if sent != received {
		return nil, fmt.Errorf("producers sent %d records, consumers got %d: %w", sent, received, ErrContent)
	}
	wall, _ := spans(consumers)
	_, cpu := spans(all)
	if wall <= 0 {
		return nil, errors.New("no time passed between the first record and the last: choose more -seconds")
	}
	bytes := float64(received) * float64(p.size)
	return results.Round{
		results.RecordsPerS: float64(received) / wall.Seconds(), results.BytesPerS: bytes / wall.Seconds(),
		results.CPUSPerGiB: cpu.Seconds() / (bytes / (1 << 30)),
	}, nil
}

// start starts the workers of a round, producers first.
func (t *Throughput) start(c *crew, p plannedRound, e Exchange) error {
	producerFiles, consumerFiles, err := t.files(p.transport)
	defer func() { // a stream ends when the worker at its other end does
		for _, file := range slices.Concat(slices.Concat(producerFiles...), slices.Concat(consumerFiles...)) {
			_ = file.Close()
		}
	}()
	if err != nil {
		return err
	}
	for i := range t.Producers {
		producer := &recordProducer{Exchange: e, Transport: p.transport, Size: p.size, Index: i, Duration: t.Duration}
		if i == 0 {
			producer.Fault = t.Fault
		}
		if err := c.start(Producer, i, producer, producerFiles[i]...); err != nil {
			return err
		}
	}
	for i := range t.Consumers {
		consumer := &recordConsumer{Exchange: e, Transport: p.transport, Size: p.size, Index: i}
		if i == 0 {
			consumer.Fault = t.Fault
		}
		if err := c.start(Consumer, i, consumer, consumerFiles[i]...); err != nil {
			return err
		}
	}
	return nil
}

// files returns what each producer and consumer must be started with: a stream to
// each of the others, the ring, or nothing. The caller closes them, also after an
// error.
func (t *Throughput) files(transport Transport) (producers, consumers [][]*os.File, err error) {
	producers, consumers = make([][]*os.File, t.Producers), make([][]*os.File, t.Consumers)
	switch transport {
	case Shm:
	case Ceiling:
		ring, err := createRing()
		if err != nil {
			return producers, consumers, err
		}
		producers[0], consumers[0] = []*os.File{ring}, []*os.File{ring}
	default:
		for p := range producers {
			for c := range consumers {
				w, r, err := transport.connect()
				if err != nil {
					return producers, consumers, err
				}
				producers[p] = append(producers[p], w)
				consumers[c] = append(consumers[c], r)
			}
		}
	}
	return producers, consumers, nil
}
