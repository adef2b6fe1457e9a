package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"shuffled/reader"
	"shuffled/shuffle"
	"shuffled/writer"
)

// wordsPerStep is how many words pass between updates of the progress.
const wordsPerStep = 4096

// A wordProducer reads files and emits their words, keyed by the word.
type wordProducer struct {
	Exchange Exchange
	Index    int
	Files    []InputFile
	Fault    Fault
}

func (p *wordProducer) run(ctx context.Context, w *workerContext) (res result, err error) {
	c, disconnect, err := p.Exchange.connect(ctx, fmt.Sprintf("producer-%d", p.Index))
	if err != nil {
		return res, err
	}
	defer disconnect()
	partition, err := p.Exchange.create(ctx, c, p.Index)
	if err != nil {
		return res, err
	}
	out, err := writer.New(partition, shuffle.Bytes{}, writer.KeyGroups(writer.HashBytes, 0))
	if err != nil {
		return res, errors.Join(err, partition.Close())
	}
	defer func() { err = cmp.Or(err, out.Close()) }()
	if err := w.begin(); err != nil {
		return res, err
	}
	var timer spanTimer
	timer.begin()
	read, err := eachWord(p.Files, func(word []byte, bytesRead int64) error {
		if res.Records++; res.Records%wordsPerStep == 0 {
			w.done.bytes.Store(bytesRead)
			if p.Fault == DieProducing {
				die()
			}
		}
		return out.Emit(ctx, word)
	})
	if err == nil && p.Fault == FailProducing {
		err = errors.New("told to fail")
	}
	w.done.bytes.Store(read)
	if err != nil {
		_ = out.Fail(ctx, err) // else its consumers see it lost
		return res, err
	}
	if err := out.Finish(ctx); err != nil {
		return res, err
	}
	res.Span, res.Bytes = timer.end(), out.Counters().Bytes
	return res, nil
}

// A wordConsumer counts the words of its subpartition of all partitions.
type wordConsumer struct {
	Exchange Exchange
	Index    int
	Fault    Fault
}

func (p *wordConsumer) run(ctx context.Context, w *workerContext) (res result, err error) {
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
	timer.begin()
	counts := NewWordCounts()
	for word, err := range reader.Records(ctx, gate, shuffle.Bytes{}) {
		if err != nil {
			return res, err
		}
		counts.Add(word)
		if counts.Total%wordsPerStep == 0 {
			w.done.words.Store(counts.Total)
			if p.Fault == DieConsuming {
				die()
			}
		}
	}
	w.done.words.Store(counts.Total)
	if p.Fault == Miscount && counts.Distinct() > 0 {
		counts.Add([]byte(counts.Words()[0].Word))
	}
	res.Span, res.Records, res.Words = timer.end(), counts.Total, counts.Words()
	return res, nil
}
