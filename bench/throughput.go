package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"shuffled/bench/results"
	"shuffled/internal/units"
	"shuffled/shuffle"
)

// A Throughput measures how many records a second transports carry from producer
// to consumer processes. The transports take turns, round by round.
type Throughput struct {
	Environment
	Sizes      []int // of records, in bytes
	Transports []Transport
	Rounds     int
	// Duration is how long the producers of a round send.
	Duration             time.Duration
	Producers, Consumers int
	// What follows are lists of settings of which all combinations are measured:
	// the first three with Shm alone, the last with several consumers. An empty one
	// is that of the default.
	PartitionTypes []shuffle.ResultPartitionType
	FlushTimeouts  []time.Duration
	Vias           []Via
	Distributions  []Distribution
	// Pin has each worker use one core only, in turn.
	Pin bool

	cores []int // to pin workers to
}

// Run measures. A record that is not what was due, or missing, is ErrContent.
// With an error it also returns the rounds before it, if there are any, marked as
// partial. It ends all workers before it returns.
func (t *Throughput) Run(ctx context.Context) (*results.File, error) {
	file := results.New("throughput")
	fmt.Fprintf(t.Out, "machine: %v\n", file.Machine)
	if t.Pin {
		if err := t.pin(); err != nil {
			return nil, err
		}
	}
	var through *service
	segment := 0
	if slices.Contains(t.Transports, Shm) {
		d, err := findDaemon(ctx, t.Socket)
		if err != nil {
			return nil, err
		}
		defer d.stop()
		through = d
		fmt.Fprintf(t.Out, "daemon: %s\n", d.what)
		if segment, err = d.segmentSize(ctx); err != nil {
			return nil, err
		}
	}
	plan := t.plan(segment)
	if len(plan) == 0 {
		return nil, errors.New("no transport can do this: choose others with --transports, --via or --size")
	}
	total := time.Duration(len(plan)*t.Rounds) * t.Duration
	fmt.Fprintf(t.Out, "plan: %s and %s, a process each; %s of %v for each of %s, about %v\n",
		units.Plural(t.Producers, "producer"), units.Plural(t.Consumers, "consumer"), units.Plural(t.Rounds, "round"),
		t.Duration, units.Plural(len(plan), "combination"), total.Round(time.Second))
	disturbed, width := 0, nameWidth(plan)
	for round := range t.Rounds {
		for _, p := range plan {
			meter := startLoadMeter()
			r, workers, err := t.round(ctx, round+1, p, through)
			if err != nil {
				return file.End(fmt.Errorf("%s, %d bytes, round %d: %w", p.name, p.size, round+1, err))
			}
			note := ""
			if others, ok := meter.others(workers); ok {
				r[results.OtherCores] = others
				if others >= disturbance {
					disturbed++
					note = fmt.Sprintf("  other programs used %.1f cores", others)
				}
			}
			fmt.Fprintf(t.Out, "round %d: %6d B %*s  %8s M records/s  %6.2f GB/s  %7.3f CPU s/GiB%s\n", round+1, p.size,
				width, p.name,
				units.FormatMillions(r[results.RecordsPerS]), r[results.BytesPerS]/1e9, r[results.CPUSPerGiB], note)
			file.Add(t.settings(p), r)
		}
	}
	if disturbed > 0 {
		fmt.Fprintf(t.Out, "%d of %d rounds were disturbed by other programs: run again on an idle machine\n",
			disturbed, t.Rounds*len(plan))
	}
	return file.End(nil)
}

// pin says which cores workers get.
func (t *Throughput) pin() (err error) {
	if t.cores, err = coresToPin(); err != nil {
		return err
	}
	fmt.Fprintf(t.Out, "pinned: each worker to one core, in turn of %s, producers first\n", joinNumbers(t.cores))
	return nil
}

// round runs one transport once. It also returns the processor time of the
// workers' whole lives.
func (t *Throughput) round(ctx context.Context, number int, p plannedRound, through *service) (results.Round,
	time.Duration, error) {
	crew := newCrew(t.Launcher)
	crew.observer, crew.settings, crew.cores = t.Observer, t.settings(p), t.cores
	defer crew.abandon()
	e := Exchange{Name: newExchangeName(), Producers: t.Producers, Consumers: t.Consumers}
	if p.transport == Shm {
		e.Socket, crew.daemon = through.socket, through
		e.PartitionType = p.variant.PartitionType
	}
	if err := t.start(crew, p, e, t.Fault.in(number)); err != nil {
		return nil, 0, err
	}
	line := newTerminalLine(t.Progress)
	defer line.end()
	done, err := crew.wait(ctx, func() {
		line.show(fmt.Sprintf("round %d of %d, %d bytes, %s", number, t.Rounds, p.size, p.name))
	})
	if err != nil {
		return nil, 0, err
	}
	r, err := t.evaluate(p, done)
	if err != nil {
		return nil, 0, err
	}
	payload := int64(0)
	for _, consumer := range done[t.Producers:] {
		payload += consumer.Records * int64(p.size)
	}
	return r, crew.processorTime(), crew.observed(r, payload)
}

// evaluate works out the rates of a round.
func (t *Throughput) evaluate(p plannedRound, done []result) (results.Round, error) {
	var sent, received int64
	var consumers, all []Span
	var firsts [][]int64
	var mallocs uint64
	for i, r := range done {
		all, mallocs = append(all, r.Span), mallocs+r.Span.Mallocs
		if i < t.Producers {
			sent += r.Records
		} else {
			received += r.Records
			consumers, firsts = append(consumers, r.Span), append(firsts, r.Firsts)
		}
	}
	if sent != received {
		return nil, fmt.Errorf("producers sent %d records, consumers got %d: %w", sent, received, ErrContent)
	}
	if err := checkDeal(firsts); err != nil {
		return nil, err
	}
	wall, _ := spans(consumers)
	_, cpu := spans(all)
	if wall <= 0 {
		return nil, errors.New("no time passed between the first record and the last: choose more --seconds")
	}
	bytes := float64(received) * float64(p.size)
	return results.Round{
		results.RecordsPerS: float64(received) / wall.Seconds(), results.BytesPerS: bytes / wall.Seconds(),
		results.CPUSPerGiB:      cpu.Seconds() / (bytes / (1 << 30)),
		results.CostPerRecord:   float64(cpu) / float64(received),
		results.AllocsPerRecord: float64(mallocs) / float64(received),
	}, nil
}

// start starts the workers of a round, producers first.
func (t *Throughput) start(c *crew, p plannedRound, e Exchange, fault Fault) error {
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
		producer := &recordProducer{
			Exchange: e, Transport: p.transport, Variant: p.variant, Distribution: p.distribution, Size: p.size,
			Index: i, Duration: fault.lasting(t.Duration),
		}
		if i == 0 {
			producer.Fault = fault
		}
		if err := c.start(Producer, i, producer, producerFiles[i]...); err != nil {
			return err
		}
	}
	for i := range t.Consumers {
		consumer := &recordConsumer{Exchange: e, Transport: p.transport, Distribution: p.distribution, Size: p.size,
			Index: i}
		if i == 0 {
			consumer.Fault = fault
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
