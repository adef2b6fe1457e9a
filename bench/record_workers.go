package bench

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// A recordProducer sends records for a time.
type recordProducer struct {
	Exchange  Exchange
	Transport Transport
	Size      int
	Index     int
	Duration  time.Duration
	Fault     Fault
}

func (p *recordProducer) run(ctx context.Context, w *workerContext) (result, error) {
	source := newRecordSource(p.Size, p.Index)
	switch p.Fault {
	case FlipByte:
		source.flip = faultAfter
	case DieProducing:
		source.die = true
	}
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
		selector = keySelector()
	}
	out, err := writer.New(partition, shuffle.Bytes{}, selector)
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
	return produceIntoStreams(streams, source)
}

// A recordConsumer checks what it gets until all producers have ended.
type recordConsumer struct {
	Exchange  Exchange
	Transport Transport
	Size      int
	Index     int
	Fault     Fault
}

func (p *recordConsumer) run(ctx context.Context, w *workerContext) (result, error) {
	switch p.Transport {
	case Shm:
		return p.receive(ctx, w)
	case Ceiling:
		return p.consume(ctx, w)
	}
	return p.read(w)
}

func (p *recordConsumer) checker() (*recordChecker, error) {
	if p.Exchange.Producers == 1 && p.Exchange.Consumers == 1 {
		return newRecordChecker(p.Size), nil
	}
	return newKeyedChecker(p.Size, p.Exchange.Producers, p.Exchange.Consumers, p.Index)
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
	return result{Span: timer.end(), Records: checker.count()}, nil
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
	return result{Span: timer.end(), Records: checker.count()}, err
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
	var checkers []*recordChecker
	for _, file := range files {
		checker, err := p.checker()
		if err != nil {
			return result{}, err
		}
		streams, checkers = append(streams, file), append(checkers, checker)
	}
	if err := w.begin(); err != nil {
		return result{}, err
	}
	p.maybeDie()
	var timer spanTimer
	err = consumeFromStreams(streams, checkers, &timer, closeAll)
	res := result{Span: timer.end()}
	for _, checker := range checkers {
		res.Records += checker.count()
	}
	return res, err
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
