package bench

import (
	"cmp"
	"context"
	"fmt"
	"time"
)

// A pinger sends a record and waits for one that answers it, again and again.
type pinger struct {
	Link             latencyLink
	WarmUp, Duration time.Duration
	Fault            Fault
}

func (p *pinger) run(ctx context.Context, w *workerContext) (_ result, err error) {
	end, err := p.Link.open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = cmp.Or(err, end.close()) }()
	source, checker := newRecordSource(p.Link.Size, 0), newRecordChecker(p.Link.Size)
	source.goWrong(p.Fault)
	if err := w.begin(); err != nil {
		return result{}, err
	}
	var timer spanTimer
	timer.begin()
	trips := startTrips(p.WarmUp, p.Duration)
	finished := false
	answered := func(record []byte) error {
		goOn := trips.returned()
		if finished {
			return fmt.Errorf("record %d answers none: %w", checker.count(), ErrContent)
		}
		if err := checker.check(record); err != nil {
			return err
		}
		if !goOn {
			finished = true
			return end.finish(ctx)
		}
		frame := source.one()
		trips.begin()
		return end.send(ctx, frame)
	}
	frame := source.one()
	trips.begin()
	if err := end.send(ctx, frame); err != nil {
		return result{}, err
	}
	if err := end.receive(ctx, answered); err != nil {
		return result{}, err
	}
	return trips.result(timer.end())
}

// A ponger answers each record with the one of the same number of its own.
type ponger struct {
	Link  latencyLink
	Fault Fault
}

func (p *ponger) run(ctx context.Context, w *workerContext) (_ result, err error) {
	end, err := p.Link.open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = cmp.Or(err, end.close()) }()
	source, checker := newRecordSource(p.Link.Size, 0), newRecordChecker(p.Link.Size)
	if err := w.begin(); err != nil {
		return result{}, err
	}
	if p.Fault == DieConsuming {
		die()
	}
	var timer spanTimer
	timer.begin()
	answer := source.one()
	err = end.receive(ctx, func(record []byte) error {
		if err := checker.check(record); err != nil {
			return err
		}
		if err := end.send(ctx, answer); err != nil {
			return err
		}
		answer = source.one()
		return nil
	})
	if err == nil {
		err = end.finish(ctx)
	}
	return result{Span: timer.end(), Records: checker.count()}, err
}

// trips takes the times of round trips, one after the other. Those that end in the
// warm-up are not kept.
type trips struct {
	latencies   *latencies
	from, until time.Duration
	begun       time.Duration // when the present one began
	count       int64
}

func startTrips(warmUp, duration time.Duration) *trips {
	start := now()
	return &trips{latencies: newLatencies(), from: start + warmUp, until: start + warmUp + duration}
}

func (t *trips) begin() { t.begun = now() }

// returned is called at the end of a trip and reports whether there is time for
// another one.
func (t *trips) returned() (goOn bool) {
	at := now()
	t.count++
	if at >= t.from {
		t.latencies.record(at - t.begun)
	}
	return at < t.until
}

func (t *trips) result(span Span) (result, error) {
	encoded, err := t.latencies.encode()
	return result{Span: span, Records: t.count, Latencies: encoded}, err
}
