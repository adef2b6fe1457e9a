package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
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
// It ends all workers before it returns.
func (t *Throughput) Run(ctx context.Context) (*Report, error) {
	report := &Report{Machine: ThisMachine()}
	fmt.Fprintf(t.Out, "machine: %v\n", report.Machine)
	plan := t.plan()
	if len(plan) == 0 {
		return nil, errors.New("no transport can do this: choose others with -transports")
	}
	socket := t.Socket
	if t.measures(plan, Shm) {
		d, err := findDaemon(ctx, t.Socket)
		if err != nil {
			return nil, err
		}
		defer d.stop()
		socket = d.socket
		fmt.Fprintf(t.Out, "daemon: %s\n", d.what)
	}
	total := time.Duration(len(plan)*t.Rounds) * t.Duration
	fmt.Fprintf(t.Out, "plan: %s and %s, a process each; %s of %v for each of %s, about %v\n",
		plural(t.Producers, "producer"), plural(t.Consumers, "consumer"), plural(t.Rounds, "round"), t.Duration, plural(len(plan), "combination"), total.Round(time.Second))
	disturbed := 0
	for round := range t.Rounds {
		for _, p := range plan {
			meter := startLoadMeter()
			r, workers, err := t.round(ctx, p, socket)
			if err != nil {
				return nil, fmt.Errorf("%s, %d bytes, round %d: %w", p.transport, p.size, round+1, err)
			}
			note := ""
			if r.OtherCores = meter.others(workers); r.OtherCores >= disturbance {
				disturbed++
				note = fmt.Sprintf("  other programs used %.1f cores", r.OtherCores)
			}
			fmt.Fprintf(t.Out, "round %d: %6d B %8s  %8s M records/s  %6.2f GB/s  %7.3f CPU s/GiB%s\n", round+1, p.size, p.transport,
				formatMillions(r.RecordsPerS), r.BytesPerS/1e9, r.CPUSPerGiB, note)
			m := report.measurement(p.transport, p.size, t.Producers, t.Consumers)
			m.Rounds = append(m.Rounds, r)
		}
	}
	if disturbed > 0 {
		fmt.Fprintf(t.Out, "%d of %d rounds were disturbed by other programs: run again on an idle machine\n", disturbed, t.Rounds*len(plan))
	}
	report.summarise()
	return report, nil
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
func (t *Throughput) round(ctx context.Context, p plannedRound, socket string) (Round, time.Duration, error) {
	crew := newCrew(t.Launcher)
	defer crew.abandon()
	if err := t.start(crew, p, socket); err != nil {
		return Round{}, 0, err
	}
	results, err := crew.wait(ctx, nil)
	if err != nil {
		return Round{}, 0, err
	}
	r, err := t.evaluate(p, results)
	return r, crew.processorTime(), err
}

// evaluate works out the rates of a round.
func (t *Throughput) evaluate(p plannedRound, results []result) (Round, error) {
	var sent, received int64
	var consumers, all []Span
	for i, r := range results {
		all = append(all, r.Span)
		if i < t.Producers {
			sent += r.Records
		} else {
			received += r.Records
			consumers = append(consumers, r.Span)
		}
	}
	if sent != received {
		return Round{}, fmt.Errorf("producers sent %d records, consumers got %d: %w", sent, received, ErrContent)
	}
	wall, _ := spans(consumers)
	_, cpu := spans(all)
	if wall <= 0 {
		return Round{}, errors.New("no time passed between the first record and the last: choose more -seconds")
	}
	bytes := float64(received) * float64(p.size)
	return Round{
		RecordsPerS: float64(received) / wall.Seconds(), BytesPerS: bytes / wall.Seconds(),
		CPUSPerGiB: cpu.Seconds() / (bytes / (1 << 30)),
	}, nil
}

// start starts the workers of a round, producers first.
func (t *Throughput) start(c *crew, p plannedRound, socket string) error {
	producerFiles, consumerFiles, err := t.files(p.transport)
	defer func() { // a stream ends when the worker at its other end does
		for _, file := range slices.Concat(slices.Concat(producerFiles...), slices.Concat(consumerFiles...)) {
			_ = file.Close()
		}
	}()
	if err != nil {
		return err
	}
	e := Exchange{Name: newExchangeName(), Socket: socket, Producers: t.Producers, Consumers: t.Consumers}
	for i := range t.Producers {
		producer := &recordProducer{Exchange: e, Transport: p.transport, Size: p.size, Index: i, Duration: t.Duration}
		if i == 0 {
			producer.Fault = t.Fault
		}
		if err := c.start(fmt.Sprintf("producer %d", i), job{RecordProducer: producer}, producerFiles[i]...); err != nil {
			return err
		}
	}
	for i := range t.Consumers {
		consumer := &recordConsumer{Exchange: e, Transport: p.transport, Size: p.size, Index: i}
		if i == 0 {
			consumer.Fault = t.Fault
		}
		if err := c.start(fmt.Sprintf("consumer %d", i), job{RecordConsumer: consumer}, consumerFiles[i]...); err != nil {
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
