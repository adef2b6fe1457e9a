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

// MaxFanout is the largest number of subpartitions of a [Fanout].
const MaxFanout = 4096

// FanoutTransports are those that a [Fanout] can measure.
var FanoutTransports = []Transport{Shm, Unix}

// A Fanout measures what a record costs when each producer sends to many
// consumers, all to all and keyed. Each subpartition has a consumer of its own, a
// goroutine with a gate, and the consumers share a few processes. The numbers of
// subpartitions and the transports take turns, round by round.
type Fanout struct {
	Environment
	Subpartitions []int
	Transports    []Transport
	Size          int // of a record, in bytes
	Producers     int
	// Processes is how many processes the consumers share, if there are as many
	// subpartitions.
	Processes int
	Rounds    int
	// Duration is how long the producers of a round send.
	Duration time.Duration
	// FlushTimeout is how long a record may wait for others, as
	// writer.WithBufferTimeout has it.
	FlushTimeout time.Duration
}

// A fanoutRound is one number of subpartitions with one transport.
type fanoutRound struct {
	subpartitions int
	transport     Transport
}

// Run measures. A record that is not what was due, or missing, is ErrContent.
// With an error it also returns the rounds before it, if there are any, marked as
// partial. It ends all workers before it returns.
func (f *Fanout) Run(ctx context.Context) (*results.File, error) {
	file := results.New("fanout")
	fmt.Fprintf(f.Out, "machine: %v\n", file.Machine)
	plan := f.plan()
	if len(plan) == 0 {
		return nil, errors.New("nothing of this can be measured: choose fewer --subpartitions")
	}
	through, err := f.daemon(ctx)
	if err != nil {
		return nil, err
	}
	defer through.stop()
	phases := newFanoutPhases(f.Duration)
	fmt.Fprintf(f.Out,
		"plan: %s, a process each; a consumer for each subpartition, in %s; %s of %v for each of %s, about %v\n",
		units.Plural(f.Producers, "producer"), processes(f.Processes), units.Plural(f.Rounds, "round"), f.Duration,
		units.Plural(len(plan), "combination"),
		(time.Duration(len(plan)*f.Rounds) * (phases.WarmUp + phases.Rest + phases.Duration)).Round(time.Second))
	for round := range f.Rounds {
		for _, p := range plan {
			r, err := f.round(ctx, round+1, p, through)
			if err != nil {
				return file.End(fmt.Errorf("%s, %s, round %d: %w", p.transport,
					units.Plural(p.subpartitions, "subpartition"), round+1, err))
			}
			note := ""
			if others := r[results.OtherCores]; others >= disturbance {
				note = fmt.Sprintf("  other programs used %.1f cores", others)
			}
			fmt.Fprintf(f.Out, "round %d: %5d subpartitions %6s  %8s M records/s  %7.1f ns of processor a record%s\n",
				round+1, p.subpartitions,
				p.transport, units.FormatMillions(r[results.RecordsPerS]), r[results.CostPerRecord], note)
			file.Add(f.settings(p), r)
		}
	}
	return file.End(nil)
}

func processes(n int) string {
	if n == 1 {
		return "1 process"
	}
	return fmt.Sprintf("%d processes", n)
}

// daemon returns the daemon to measure; without Shm, one that is not there.
func (f *Fanout) daemon(ctx context.Context) (*service, error) {
	if !slices.Contains(f.Transports, Shm) {
		return &service{stop: func() {}}, nil
	}
	most := slices.Max(f.Subpartitions)
	size, err := sizeFor(f.Producers, most, most, f.Producers, true)
	if err != nil {
		return nil, err
	}
	d, err := findDaemonOfSize(ctx, f.Socket, size)
	if err == nil {
		fmt.Fprintf(f.Out, "daemon: %s\n", d.what)
	}
	return d, err
}

// plan returns what takes turns, and says what is left out.
func (f *Fanout) plan() (plan []fanoutRound) {
	for _, subpartitions := range f.Subpartitions {
		for _, transport := range f.Transports {
			if err := f.check(transport, subpartitions); err != nil {
				fmt.Fprintf(f.Out, "left out: %s with %s: %v\n", transport, units.Plural(subpartitions, "subpartition"),
					err)
				continue
			}
			plan = append(plan, fanoutRound{subpartitions, transport})
		}
	}
	return plan
}

// check returns why a transport cannot carry such an exchange, or nil.
func (f *Fanout) check(transport Transport, subpartitions int) error {
	if transport == Shm {
		return nil
	}
	// Both ends of every stream are open here while workers start.
	needed := uint64(2*f.Producers*subpartitions + spareDescriptors)
	if limit := raiseDescriptorLimit(needed); needed > limit {
		return fmt.Errorf("it takes %d descriptors, RLIMIT_NOFILE is %d: raise it with ulimit -n %d", needed, limit,
			needed)
	}
	return nil
}

func (f *Fanout) settings(p fanoutRound) results.Settings {
	s := results.Settings{
		Transport: string(p.transport), RecordSize: f.Size, Subpartitions: p.subpartitions,
		Producers: f.Producers, Consumers: min(f.Processes, p.subpartitions),
	}
	if p.transport == Shm {
		s.FlushTimeout = formatFlushTimeout(f.FlushTimeout)
	}
	return s
}

// round runs one transport once.
func (f *Fanout) round(ctx context.Context, round int, p fanoutRound, through *service) (results.Round, error) {
	crew := newCrew(f.Launcher)
	crew.observer, crew.settings = f.Observer, f.settings(p)
	e := Exchange{Name: newExchangeName(), Producers: f.Producers, Consumers: p.subpartitions}
	fault := f.Fault.in(round)
	phases := newFanoutPhases(fault.lasting(f.Duration))
	sample := func() {}
	if p.transport == Shm {
		watch := newFanoutWatch(through.pid, phases, f.Observer, f.Producers*p.subpartitions)
		defer watch.close()
		e.Socket, crew.daemon, crew.observer, sample = through.socket, through, watch, watch.sample
	}
	defer crew.abandon()
	if err := f.start(crew, p, e, phases, fault); err != nil {
		return nil, err
	}
	line := newProgressLine(f.Progress)
	defer line.end()
	meter := startLoadMeter()
	done, err := crew.wait(ctx, func() {
		sample()
		sent := int64(0)
		for _, m := range crew.members {
			sent += m.done.Bytes
		}
		line.show(fmt.Sprintf("round %d: %s with %s: %s sent", round, p.transport,
			units.Plural(p.subpartitions, "subpartition"), units.FormatBytes(sent)))
	})
	if err != nil {
		return nil, err
	}
	r, payload, err := f.evaluate(done)
	if err != nil {
		return nil, err
	}
	if others, ok := meter.others(crew.processorTime()); ok {
		r[results.OtherCores] = others
	}
	return r, crew.observed(r, payload)
}

// evaluate works out the figures of a round, and how many bytes of records got
// to consumers.
func (f *Fanout) evaluate(done []result) (r results.Round, payload int64, err error) {
	var sent, before, received int64
	var mallocs uint64
	var cpu, end time.Duration
	start := done[0].Span.Start
	for i, d := range done {
		mallocs, cpu, end = mallocs+d.Span.Mallocs, cpu+d.Span.CPU, max(end, d.Span.End)
		if i < f.Producers {
			sent, before, start = sent+d.Records, before+d.Before, min(start, d.Span.Start)
		} else {
			received += d.Records // the span begins in the rest
		}
	}
	if sent != received {
		return nil, 0, fmt.Errorf("producers sent %d records, consumers got %d: %w", sent, received, ErrContent)
	}
	records, wall := float64(sent-before), end-start
	if records <= 0 || wall <= 0 {
		return nil, 0, errors.New("nothing was sent in time: choose more --seconds")
	}
	bytes := records * float64(f.Size)
	return results.Round{
		results.RecordsPerS: records / wall.Seconds(), results.BytesPerS: bytes / wall.Seconds(),
		results.CostPerRecord:   float64(cpu.Nanoseconds()) / records,
		results.CPUSPerGiB:      cpu.Seconds() / (bytes / (1 << 30)),
		results.AllocsPerRecord: float64(mallocs) / records,
	}, received * int64(f.Size), nil
}

// start starts the workers of a round, producers first.
func (f *Fanout) start(c *crew, p fanoutRound, e Exchange, phases fanoutPhases, fault Fault) error {
	producerFiles, consumerFiles, err := f.files(p)
	defer func() { // a stream ends when the worker at its other end does
		for _, file := range slices.Concat(slices.Concat(producerFiles...), slices.Concat(consumerFiles...)) {
			_ = file.Close()
		}
	}()
	if err != nil {
		return err
	}
	for i := range f.Producers {
		producer := &fanoutProducer{Exchange: e, Transport: p.transport, Size: f.Size, Index: i, Phases: phases,
			FlushTimeout: f.FlushTimeout}
		if i == 0 {
			producer.Fault = fault
		}
		if err := c.start(Producer, i, producer, producerFiles[i]...); err != nil {
			return err
		}
	}
	for i, group := range f.groups(p.subpartitions) {
		consumer := &fanoutConsumer{
			Exchange: e, Transport: p.transport, Size: f.Size, Index: i, First: group[0], Count: group[1] - group[0],
			Phases: phases,
		}
		if i == 0 {
			consumer.Fault = fault
		}
		if err := c.start(Consumer, i, consumer, slices.Concat(consumerFiles[group[0]:group[1]]...)...); err != nil {
			return err
		}
	}
	return nil
}

// groups returns the first subpartition of each consumer process, and the end.
func (f *Fanout) groups(subpartitions int) (groups [][2]int) {
	n := min(f.Processes, subpartitions)
	for i := range n {
		groups = append(groups, [2]int{i * subpartitions / n, (i + 1) * subpartitions / n})
	}
	return groups
}

// files returns the streams that each producer must be started with, and those
// for each subpartition. The caller closes them, also after an error.
func (f *Fanout) files(p fanoutRound) (producers, subpartitions [][]*os.File, err error) {
	producers, subpartitions = make([][]*os.File, f.Producers), make([][]*os.File, p.subpartitions)
	if p.transport == Shm {
		return producers, subpartitions, nil
	}
	for i := range producers {
		for s := range subpartitions {
			w, r, err := p.transport.connect()
			if err != nil {
				return producers, subpartitions, err
			}
			producers[i], subpartitions[s] = append(producers[i], w), append(subpartitions[s], r)
		}
	}
	return producers, subpartitions, nil
}
