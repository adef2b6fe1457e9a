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
)

// A Latency measures how long records are under way between two processes: one
// way, sent at a planned rate, and there and back, one at a time. All that is
// measured takes turns, round by round.
type Latency struct {
	Environment
	Paths      []Path
	Transports []Transport // of LatencyTransports
	// Waitings are how round trips wait. One-way producers sleep until a record is
	// due if Parked is all there is; otherwise they spin for the last moment.
	Waitings []Waiting
	Sizes    []int     // of records, in bytes
	Rates    []float64 // of records one way, in a second
	// FlushTimeouts are those of one-way records through Shm. Round trips have 0.
	FlushTimeouts []time.Duration
	Rounds        int
	// Duration is how long latencies are taken in a round, after a warm-up of a
	// fifth of it.
	Duration time.Duration
	// Pin has each worker use one core only, in turn.
	Pin bool
	// Histograms is a folder to write the latencies of each measurement to, empty
	// for none; see writeHistograms.
	Histograms string

	cores []int // to pin workers to
}

// Run measures. A record that is not what was due, or missing, is ErrContent.
// With an error it also returns the rounds before it, if there are any, marked as
// partial. It ends all workers before it returns.
func (l *Latency) Run(ctx context.Context) (_ *results.File, err error) {
	file := results.New("latency")
	fmt.Fprintf(l.Out, "machine: %v\n", file.Machine)
	plan := l.plan()
	if len(plan) == 0 {
		return nil, errors.New("no transport can do this: choose others with --transports, --path or --waiting")
	}
	if l.Histograms != "" {
		if err := os.MkdirAll(l.Histograms, 0o755); err != nil {
			return nil, fmt.Errorf("create folder of histograms: %w", err)
		}
	}
	var through *service
	if slices.ContainsFunc(plan, func(p latencyPlan) bool { return p.transport == Shm }) {
		d, err := findDaemon(ctx, l.Socket)
		if err != nil {
			return nil, err
		}
		defer d.stop()
		through = d
		fmt.Fprintf(l.Out, "daemon: %s\n", d.what)
	}
	if l.Pin {
		if l.cores, err = coresToPin(); err != nil {
			return nil, err
		}
	}
	total := time.Duration(len(plan)*l.Rounds) * (l.warmUp() + l.Duration)
	fmt.Fprintf(l.Out, "plan: %s of %v and a warm-up of %v for each of %s, about %v\n", units.Plural(l.Rounds, "round"),
		l.Duration,
		l.warmUp(), units.Plural(len(plan), "combination"), total.Round(time.Second))
	series := make([]latencySeries, len(plan))
	err = l.rounds(ctx, plan, series, through, file)
	if l.Histograms != "" {
		if writeErr := writeHistograms(l.Histograms, plan, series); writeErr != nil {
			err = errors.Join(err, writeErr)
		} else {
			fmt.Fprintf(l.Out, "histograms: %s\n", l.Histograms)
		}
	}
	return file.End(err)
}

// warmUp is how long a round goes on before latencies are taken.
func (l *Latency) warmUp() time.Duration { return l.Duration / 5 }

// rounds does all rounds of a plan. The latencies of each one go into the series
// beside it.
func (l *Latency) rounds(ctx context.Context, plan []latencyPlan, series []latencySeries, through *service,
	file *results.File) error {
	disturbed := 0
	for round := range l.Rounds {
		for i, p := range plan {
			meter := startLoadMeter()
			r, err := l.round(ctx, round+1, p, through)
			if err == nil {
				err = series[i].add(r)
			}
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", p, round+1, err)
			}
			note := p.note(r.figures)
			if others, ok := meter.others(r.workers); ok {
				r.figures[results.OtherCores] = others
				if others >= disturbance {
					disturbed++
					note += fmt.Sprintf("  other programs used %.1f cores", others)
				}
			}
			file.Add(p.settings(l.Pin), r.figures).Percentiles = series[i].all.percentiles()
			fmt.Fprintf(l.Out, "round %d: %-*s%s%s\n", round+1, planWidth(plan), p, describeLatencies(r.figures), note)
		}
	}
	if disturbed > 0 {
		fmt.Fprintf(l.Out, "%d of %d rounds were disturbed by other programs: run again on an idle machine\n",
			disturbed, l.Rounds*len(plan))
	}
	return nil
}

func describeLatencies(r results.Round) (text string) {
	for _, p := range []struct {
		name   string
		metric results.Metric
	}{{"p50", results.P50}, {"p99", results.P99}, {"max", results.Highest}} {
		text += fmt.Sprintf("  %s %9s", p.name, p.metric.Format(r[p.metric]))
	}
	return text
}

// round measures once.
func (l *Latency) round(ctx context.Context, number int, p latencyPlan, through *service) (r latencyRound, err error) {
	crew := newCrew(l.Launcher)
	crew.observer, crew.settings, crew.cores = l.Observer, p.settings(l.Pin), l.cores
	defer crew.abandon()
	socket := ""
	if p.transport == Shm {
		socket, crew.daemon = through.socket, through
	}
	if err := l.start(crew, p, socket, l.Fault.in(number)); err != nil {
		return r, err
	}
	r.began = time.Now()
	line := newTerminalLine(l.Progress)
	defer line.end()
	done, err := crew.wait(ctx, func() { line.show(fmt.Sprintf("round %d of %d, %s", number, l.Rounds, p)) })
	if err != nil {
		return r, err
	}
	r.ended, r.workers = time.Now(), crew.processorTime()
	if r.figures, r.taken, err = evaluateLatencies(p, done[0], done[1]); err != nil {
		return r, err
	}
	return r, crew.observed(r.figures, done[1].Records*int64(p.size))
}

// start starts the two workers of a round.
func (l *Latency) start(c *crew, p latencyPlan, socket string, fault Fault) error {
	producerFiles, consumerFiles, err := p.files()
	defer func() { // a stream ends when the worker at its other end does
		for _, file := range slices.Concat(producerFiles, consumerFiles) {
			_ = file.Close()
		}
	}()
	if err != nil {
		return err
	}
	producer, consumer := l.tasks(p, socket, fault)
	if err := c.start(Producer, 0, producer, producerFiles...); err != nil {
		return err
	}
	return c.start(Consumer, 0, consumer, consumerFiles...)
}

func (l *Latency) tasks(p latencyPlan, socket string, fault Fault) (producer, consumer task) {
	if p.transport == Futex || p.transport == CacheLine {
		return &barePinger{Waiting: p.waiting, WarmUp: l.warmUp(), Duration: l.Duration, Fault: fault},
			&barePonger{Waiting: p.waiting, Fault: fault}
	}
	link := latencyLink{Transport: p.transport, Size: p.size, Socket: socket, Out: newExchangeName(),
		FlushTimeout: p.flush}
	if p.path == RoundTrip {
		link.In, link.Polls = newExchangeName(), p.waiting == Spinning
		return &pinger{Link: link, WarmUp: l.warmUp(), Duration: l.Duration, Fault: fault},
			&ponger{Link: link.reversed(), Fault: fault}
	}
	plan := sendingPlan{Rate: p.rate, Spins: p.waiting == Spinning, WarmUp: l.warmUp(), Duration: l.Duration}
	return &timedProducer{Link: link, Plan: plan, Fault: fault}, &timedConsumer{Link: link.reversed(), Plan: plan,
		Fault: fault}
}

// evaluateLatencies works out the figures of a round from what its two workers
// did, one of which took the latencies.
func evaluateLatencies(p latencyPlan, producer, consumer result) (results.Round, *encodedLatencies, error) {
	if producer.Records != consumer.Records {
		return nil, nil, fmt.Errorf("the producer counts %d records, the consumer %d: %w", producer.Records,
			consumer.Records, ErrContent)
	}
	r := results.Round{}
	encoded := producer.Latencies
	if encoded == nil {
		encoded = consumer.Latencies
	}
	taken, err := encoded.decode()
	if err != nil {
		return nil, nil, err
	}
	if taken.count() == 0 {
		return nil, nil, errors.New("no record arrived after the warm-up: choose more --seconds")
	}
	taken.addTo(r)
	if p.rate > 0 {
		r[results.AchievedPerS] = float64(taken.count()) / (consumer.Span.End - consumer.Span.Start).Seconds()
	}
	records := float64(producer.Records)
	r[results.CostPerRecord] = float64(producer.Span.CPU+consumer.Span.CPU) / records
	r[results.AllocsPerRecord] = float64(producer.Span.Mallocs+consumer.Span.Mallocs) / records
	return r, encoded, nil
}
