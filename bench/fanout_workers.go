package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// The phases of a fan-out: producers send for warmUp at most, so that all memory
// is in use; rest, while nothing flows; and send for the duration, which is
// measured. What consumers do is measured from a moment late in the rest.
type fanoutPhases struct{ WarmUp, Rest, Duration time.Duration }

const (
	longestWarmUp = 200 * time.Millisecond
	fanoutRest    = 400 * time.Millisecond
)

func newFanoutPhases(d time.Duration) fanoutPhases {
	return fanoutPhases{WarmUp: min(d, longestWarmUp), Rest: fanoutRest, Duration: d}
}

// settled returns the part of the rest in which nothing flows any more, as times
// since the beginning.
func (p fanoutPhases) settled() (from, to time.Duration) {
	return p.WarmUp + p.Rest/2, p.WarmUp + p.Rest
}

// A fanoutProducer sends records, keyed, to many subpartitions.
type fanoutProducer struct {
	Exchange     Exchange // a consumer for each subpartition
	Transport    Transport
	Size         int
	Index        int
	Phases       fanoutPhases
	FlushTimeout time.Duration
	Fault        Fault
}

// A recordSink takes the records of a source.
type recordSink interface {
	// produce sends records until the source ends, and flushes.
	produce(ctx context.Context, source *recordSource) error
	// finish says that there are no more.
	finish(ctx context.Context) error
	close() error
}

func (p *fanoutProducer) run(ctx context.Context, w *workerContext) (res result, err error) {
	source := newRecordSource(p.Size, p.Index)
	source.done = &w.done.bytes
	switch p.Fault {
	case FlipByte:
		source.flip = faultAfter
	case DieProducing:
		source.die = true
	}
	sink, err := p.open(ctx)
	if err != nil {
		return res, err
	}
	defer func() { err = cmp.Or(err, sink.close()) }()
	if err := w.begin(); err != nil {
		return res, err
	}
	begun := time.Now()
	source.runFor(p.Phases.WarmUp)
	if err := sink.produce(ctx, source); err != nil {
		return res, err
	}
	res.Before = source.made()
	time.Sleep(time.Until(begun.Add(p.Phases.WarmUp + p.Phases.Rest)))
	var timer spanTimer
	timer.begin()
	source.runFor(p.Phases.Duration)
	if err := sink.produce(ctx, source); err != nil {
		return res, err
	}
	res.Span, res.Records = timer.end(), source.made()
	return res, sink.finish(ctx)
}

func (p *fanoutProducer) selector() writer.ChannelSelector[[]byte] {
	if p.Exchange.Consumers == 1 {
		return writer.Forward[[]byte]()
	}
	return spreadKeysFor(p.Exchange.Consumers).selector()
}

func (p *fanoutProducer) open(ctx context.Context) (recordSink, error) {
	if p.Transport != Shm {
		return openStreamSink(p.Exchange.Consumers, p.selector())
	}
	c, disconnect, err := p.Exchange.connect(ctx, fmt.Sprintf("producer-%d", p.Index))
	if err != nil {
		return nil, err
	}
	partition, err := p.Exchange.create(ctx, c, p.Index)
	if err != nil {
		disconnect()
		return nil, err
	}
	out, err := writer.New(partition, shuffle.Bytes{}, p.selector(), writer.WithBufferTimeout(p.FlushTimeout))
	if err != nil {
		err = cmp.Or(err, partition.Close())
		disconnect()
		return nil, err
	}
	return &partitionSink{out, disconnect}, nil
}

// A partitionSink emits into a partition.
type partitionSink struct {
	out        *writer.RecordWriter[[]byte]
	disconnect func()
}

func (s *partitionSink) produce(ctx context.Context, source *recordSource) error {
	for source.more() {
		for i := range source.count {
			if err := s.out.Emit(ctx, source.record(i)); err != nil {
				return err
			}
		}
	}
	return s.out.Flush()
}

func (s *partitionSink) finish(ctx context.Context) error { return s.out.Finish(ctx) }

func (s *partitionSink) close() error {
	err := s.out.Close()
	s.disconnect()
	return err
}

// A streamSink writes into the streams that this worker was started with.
type streamSink struct {
	closers  []io.Closer
	splitter *streamSplitter
}

func openStreamSink(n int, selector writer.ChannelSelector[[]byte]) (*streamSink, error) {
	files, err := openStreams(n)
	if err != nil {
		return nil, err
	}
	s := &streamSink{}
	var streams []io.Writer
	for _, file := range files {
		streams, s.closers = append(streams, file), append(s.closers, file)
	}
	if s.splitter, err = newStreamSplitter(streams, selector); err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *streamSink) produce(_ context.Context, source *recordSource) error {
	return s.splitter.produce(source)
}

func (s *streamSink) finish(context.Context) error { return nil }

func (s *streamSink) close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// A fanoutConsumer checks what comes for several subpartitions, each in a
// goroutine with a gate of its own, or in one for each of its streams.
type fanoutConsumer struct {
	Exchange  Exchange // a consumer for each subpartition
	Transport Transport
	Size      int
	Index     int
	// First and Count are the subpartitions.
	First, Count int
	Phases       fanoutPhases
	Fault        Fault
}

// A consumption reads and checks until its producers have ended.
type consumption struct {
	checker *recordChecker
	read    func(ctx context.Context) error
}

// Inputs are what a consumer reads, all at the same time.
type inputs struct {
	consumptions []consumption
	closers      []func() error
	// abort makes reads return that a context does not end; nil if there are none.
	abort func()
}

func (in *inputs) close() error {
	var errs []error
	for _, c := range in.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

func (p *fanoutConsumer) run(ctx context.Context, w *workerContext) (res result, err error) {
	in, err := p.open(ctx)
	if err != nil {
		return res, err
	}
	defer func() { err = cmp.Or(err, in.close()) }()
	if err := w.begin(); err != nil {
		return res, err
	}
	if p.Fault == DieConsuming {
		die()
	}
	var timer spanTimer
	from, to := p.Phases.settled()
	defer time.AfterFunc((from+to)/2, timer.begin).Stop()
	err = in.read(ctx)
	res.Span = timer.end()
	for _, c := range in.consumptions {
		res.Records += c.checker.count()
	}
	return res, err
}

// read reads everything, and returns the first error.
func (in *inputs) read(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if in.abort != nil {
		defer context.AfterFunc(ctx, in.abort)()
	}
	var readers sync.WaitGroup
	for _, c := range in.consumptions {
		readers.Go(func() {
			if err := c.read(ctx); err != nil {
				cancel(err)
			}
		})
	}
	readers.Wait()
	return context.Cause(ctx)
}

func (p *fanoutConsumer) open(ctx context.Context) (*inputs, error) {
	spread, err := newKeySpread(p.Exchange.Consumers)
	if err != nil {
		return nil, err
	}
	body := pattern(p.Size)
	newChecker := func(subpartition int) *recordChecker {
		return spread.checker(body, p.Exchange.Producers, subpartition)
	}
	if p.Transport != Shm {
		return p.openStreams(newChecker)
	}
	in := &inputs{}
	if err := p.openGates(ctx, in, newChecker); err != nil {
		return nil, errors.Join(err, in.close())
	}
	return in, nil
}

func (p *fanoutConsumer) openGates(ctx context.Context, in *inputs,
	newChecker func(subpartition int) *recordChecker) error {
	c, disconnect, err := p.Exchange.connect(ctx, fmt.Sprintf("consumer-%d", p.Index))
	if err != nil {
		return err
	}
	for subpartition := p.First; subpartition < p.First+p.Count; subpartition++ {
		gate, err := p.Exchange.open(ctx, c, subpartition)
		if err != nil {
			disconnect()
			return err
		}
		checker := newChecker(subpartition)
		in.closers = append(in.closers, gate.Close)
		in.consumptions = append(in.consumptions, consumption{checker, func(ctx context.Context) error {
			for record, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
				if err == nil {
					err = checker.check(record)
				}
				if err != nil {
					return err
				}
			}
			return nil
		}})
	}
	in.closers = append(in.closers, func() error { disconnect(); return nil })
	return nil
}

// openStreams reads the streams that this worker was started with: from all
// producers for its first subpartition, then for the next.
func (p *fanoutConsumer) openStreams(newChecker func(subpartition int) *recordChecker) (*inputs, error) {
	files, err := openStreams(p.Count * p.Exchange.Producers)
	if err != nil {
		return nil, err
	}
	var closing sync.Once
	in := &inputs{abort: func() {
		closing.Do(func() {
			for _, file := range files {
				_ = file.Close()
			}
		})
	}}
	in.closers = []func() error{func() error { in.abort(); return nil }}
	var unused spanTimer
	for i, file := range files {
		checker := newChecker(p.First + i/p.Exchange.Producers)
		in.consumptions = append(in.consumptions, consumption{checker, func(context.Context) error {
			return consumeFromStream(file, checker, &unused)
		}})
	}
	return in, nil
}
