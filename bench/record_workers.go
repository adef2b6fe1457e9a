package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A recordProducer sends records for a time.
type recordProducer struct {
	Exchange     Exchange
	Transport    Transport
	Variant      Variant // for Shm
	Distribution Distribution
	Size         int
	Index        int
	Duration     time.Duration
	Fault        Fault
}

func (p *recordProducer) run(ctx context.Context, w *workerContext) (result, error) {
	source := newRecordSource(p.Size, p.Index)
	source.goWrong(p.Fault)
	var timer spanTimer
	begin := func() error {
		if err := w.begin(); err != nil {
			return err
		}
		source.runFor(p.Duration)
		timer.begin()
		return nil
	}
	var err error
	switch p.Transport {
	case Shm:
		err = p.emit(ctx, source, begin)
	case Ceiling:
		err = withRing(func(mem []byte) error {
			return cmp.Or(begin(), produceIntoRing(ctx, mem, source))
		})
	case GRPC:
		err = p.call(ctx, source, begin)
	default:
		err = p.write(source, begin)
	}
	return result{Span: timer.end(), Records: source.made(), Bytes: source.made() * int64(framePrefix+p.Size)}, err
}

// emit sends through the shuffle.
func (p *recordProducer) emit(ctx context.Context, source *recordSource, begin func() error) (err error) {
	c, disconnect, err := p.Exchange.connect(ctx, fmt.Sprintf("producer-%d", p.Index))
	if err != nil {
		return err
	}
	defer disconnect()
	partition, err := p.Exchange.create(ctx, c, p.Index)
	if err != nil {
		return err
	}
	selector := writer.Forward[[]byte]()
	if p.Exchange.Consumers > 1 {
		selector = p.Distribution.selector()
	}
	if p.Variant.Via == Reserve {
		return p.reserve(ctx, partition, selector, source, begin)
	}
	out, err := writer.New(partition, shuffle.Bytes{}, selector, p.Variant.options()...)
	if err != nil {
		return cmp.Or(err, partition.Close())
	}
	defer func() { err = cmp.Or(err, out.Close()) }()
	if err := begin(); err != nil {
		return err
	}
	for source.more() {
		for i := range source.count {
			if err := out.Emit(ctx, source.record(i)); err != nil {
				return err
			}
		}
	}
	return out.Finish(ctx)
}

// reserve writes records in place. It flushes as a RecordWriter would, and closes
// the partition.
func (p *recordProducer) reserve(ctx context.Context, partition shuffle.ResultPartition,
	selector writer.ChannelSelector[[]byte], source *recordSource, begin func() error,
) (err error) {
	defer func() { err = cmp.Or(err, partition.Close()) }()
	if err := selector.Setup(p.Exchange.Consumers); err != nil {
		return err
	}
	always := p.Variant.FlushTimeout == writer.FlushAlways
	if p.Variant.FlushTimeout > 0 {
		defer repeat(p.Variant.FlushTimeout, func() { _ = partition.FlushAll() })() // the next record returns its error
	}
	if err := begin(); err != nil {
		return err
	}
	for source.more() {
		for i := range source.count {
			record := source.record(i)
			to := selector.Select(record)
			dst, err := partition.Reserve(ctx, to, len(record))
			if err != nil {
				return err
			}
			copy(dst, record)
			if err := partition.Commit(); err != nil {
				return err
			}
			if !always {
				continue
			}
			if err := partition.Flush(to); err != nil {
				return err
			}
		}
	}
	return partition.Finish(ctx)
}

// repeat calls f at an interval until stop, which waits for it.
func repeat(interval time.Duration, f func()) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ticker.C:
				f()
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// write sends through streams.
func (p *recordProducer) write(source *recordSource, begin func() error) error {
	files, err := openStreams(p.Exchange.Consumers)
	if err != nil {
		return err
	}
	var streams []io.Writer
	for _, file := range files {
		defer file.Close()
		streams = append(streams, file)
	}
	if err := begin(); err != nil {
		return err
	}
	return produceIntoStreams(streams, p.Distribution.selector(), source)
}

// A recordConsumer checks what it gets until all producers have ended.
type recordConsumer struct {
	Exchange     Exchange
	Transport    Transport
	Distribution Distribution
	Size         int
	Index        int
	Fault        Fault
}

func (p *recordConsumer) run(ctx context.Context, w *workerContext) (result, error) {
	switch p.Transport {
	case Shm:
		return p.receive(ctx, w)
	case Ceiling:
		return p.consume(ctx, w)
	case GRPC:
		return p.serve(w)
	}
	return p.read(w)
}

func (p *recordConsumer) checker() (*recordChecker, error) {
	if p.Exchange.Producers == 1 && p.Exchange.Consumers == 1 {
		return newRecordChecker(p.Size), nil
	}
	if p.Exchange.Consumers > 1 && p.Distribution == RoundRobin {
		return newDealtChecker(p.Size, p.Exchange.Producers, p.Exchange.Consumers), nil
	}
	return newKeyedChecker(p.Size, p.Exchange.Producers, p.Exchange.Consumers, p.Index)
}

// checkers returns one for each of the streams from the producers.
func (p *recordConsumer) checkers() (checkers []*recordChecker, err error) {
	for range p.Exchange.Producers {
		checker, err := p.checker()
		if err != nil {
			return nil, err
		}
		checkers = append(checkers, checker)
	}
	return checkers, nil
}

// receive reads from the shuffle.
func (p *recordConsumer) receive(ctx context.Context, w *workerContext) (res result, err error) {
	checker, err := p.checker()
	if err != nil {
		return res, err
	}
	c, disconnect, err := p.Exchange.connect(ctx, fmt.Sprintf("consumer-%d", p.Index))
	if err != nil {
		return res, err
	}
	defer disconnect()
	gate, err := p.Exchange.open(ctx, c, p.Index)
	if err != nil {
		return res, err
	}
	defer func() { err = cmp.Or(err, gate.Close()) }()
	if err := w.begin(); err != nil {
		return res, err
	}
	var timer spanTimer
	begun := false
	for record, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
		if err != nil {
			return res, err
		}
		if !begun {
			begun = true
			timer.begin()
			p.maybeDie()
		}
		if err := checker.check(record); err != nil {
			return res, err
		}
	}
	return consumed(timer.end(), checker), nil
}

// consumed returns the result of a consumer.
func consumed(span Span, checkers ...*recordChecker) result {
	res := result{Span: span, Firsts: slices.Clone(checkers[0].firsts)}
	for _, c := range checkers {
		res.Records += c.count()
		for producer, first := range c.firsts { // each stream has its producer
			res.Firsts[producer] = max(res.Firsts[producer], first)
		}
	}
	return res
}

// consume reads from the ring.
func (p *recordConsumer) consume(ctx context.Context, w *workerContext) (result, error) {
	checker := newRecordChecker(p.Size)
	var timer spanTimer
	err := withRing(func(mem []byte) error {
		if err := w.begin(); err != nil {
			return err
		}
		p.maybeDie()
		return consumeFromRing(ctx, mem, checker, &timer)
	})
	return consumed(timer.end(), checker), err
}

// read reads from streams.
func (p *recordConsumer) read(w *workerContext) (result, error) {
	files, err := openStreams(p.Exchange.Producers)
	if err != nil {
		return result{}, err
	}
	closeAll := func() {
		for _, file := range files {
			_ = file.Close()
		}
	}
	defer closeAll()
	var streams []io.Reader
	for _, file := range files {
		streams = append(streams, file)
	}
	checkers, err := p.checkers()
	if err != nil {
		return result{}, err
	}
	if err := w.begin(); err != nil {
		return result{}, err
	}
	p.maybeDie()
	var timer spanTimer
	err = consumeFromStreams(streams, checkers, &timer, closeAll)
	return consumed(timer.end(), checkers...), err
}

func (p *recordConsumer) maybeDie() {
	if p.Fault == DieConsuming {
		die()
	}
}

// withRing calls f with the ring that this worker was started with.
func withRing(f func(mem []byte) error) error {
	file := os.NewFile(firstFile, "ring")
	defer file.Close()
	mem, unmap, err := mapRing(file)
	if err != nil {
		return err
	}
	defer unmap()
	return f(mem)
}
