package bench

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// Records of a one-way measurement have the planned time of their sending, by
// the clock of the machine, behind their stamp, little-endian.
const plannedTimeAt = stampSize

// A sendingPlan says when records are due. A record that cannot be sent then is
// sent as soon as possible, and its latency counts from the planned time.
type sendingPlan struct {
	Rate             float64 // records a second
	Spins            bool    // for the last moment before a record is due
	WarmUp, Duration time.Duration
}

// due returns when a record is, after the first one.
func (p sendingPlan) due(record int64) time.Duration {
	return time.Duration(float64(record) * float64(time.Second) / p.Rate)
}

// end is when no more records become due.
func (p sendingPlan) end() time.Duration { return p.WarmUp + p.Duration }

// patience is how long a producer that finds itself late at the end goes on with
// what was due: a tenth of the time. One that needs longer cannot send at this
// rate, other than one that was only stopped for a while.
func (p sendingPlan) patience() time.Duration { return p.end() / 10 }

// A timedProducer sends records at planned times.
type timedProducer struct {
	Link  latencyLink
	Plan  sendingPlan
	Fault Fault
}

func (p *timedProducer) run(ctx context.Context, w *workerContext) (_ result, err error) {
	end, err := p.Link.open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = cmp.Or(err, end.close()) }()
	source := newRecordSource(p.Link.Size, 0)
	source.goWrong(p.Fault)
	if err := w.begin(); err != nil {
		return result{}, err
	}
	var timer spanTimer
	timer.begin()
	sent, err := p.send(ctx, end, source, now())
	if err == nil {
		err = end.finish(ctx)
	}
	return result{Span: timer.end(), Records: sent}, err
}

// send sends what is due from start until the plan ends, and what is late then for
// as long as patience lasts.
func (p *timedProducer) send(ctx context.Context, end latencyEnd, source *recordSource,
	start time.Duration) (sent int64, err error) {
	pause := startPauses(p.Plan.Spins)
	defer pause.stop()
	last, giveUp := start+p.Plan.end(), time.Duration(0)
	for ; ; sent++ {
		due := start + p.Plan.due(sent)
		if due >= last {
			return sent, nil
		}
		if at := pause.until(due); at >= last {
			if giveUp == 0 {
				giveUp = at + p.Plan.patience()
			}
			if at >= giveUp {
				return sent, nil
			}
		}
		frame := source.one()
		binary.LittleEndian.PutUint64(frame[framePrefix+plannedTimeAt:], uint64(due))
		if err := end.send(ctx, frame); err != nil {
			return sent, err
		}
	}
}

// pauses are the waiting of a producer for the next planned time. They hold its
// goroutine's thread.
type pauses struct{ spin time.Duration }

// spinBefore is how long before a planned time a producer that spins wakes up: more
// than a sleep is too long.
const spinBefore = 100 * time.Microsecond

func startPauses(spin bool) pauses {
	runtime.LockOSThread()
	// By default the kernel may wake a thread 50 µs late.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	if spin {
		return pauses{spinBefore}
	}
	return pauses{}
}

// stop leaves the thread to other goroutines again.
func (p pauses) stop() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 0, 0, 0, 0) // 0 is the default
	runtime.UnlockOSThread()
}

// until returns at a time, at once if that has passed, with the time it is then.
func (p pauses) until(due time.Duration) time.Duration {
	at := now()
	for wake := due - p.spin; at < wake; at = now() {
		ts := unix.NsecToTimespec(int64(wake))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &ts, nil) // a signal may end it early
	}
	for at < due {
		at = now()
	}
	return at
}

// A timedConsumer takes the latencies of the records that it gets once the
// warm-up is over.
type timedConsumer struct {
	Link  latencyLink
	Plan  sendingPlan
	Fault Fault
}

func (c *timedConsumer) run(ctx context.Context, w *workerContext) (_ result, err error) {
	end, err := c.Link.open(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = cmp.Or(err, end.close()) }()
	arrivals := newArrivalTimer(c.Link.Size, c.Plan)
	if err := w.begin(); err != nil {
		return result{}, err
	}
	if c.Fault == DieConsuming {
		die()
	}
	var timer spanTimer
	timer.begin()
	if err := end.receive(ctx, arrivals.arrive); err != nil {
		return result{}, err
	}
	return arrivals.result(timer.end())
}

// An arrivalTimer checks records that arrive and takes their latencies.
type arrivalTimer struct {
	plan      sendingPlan
	checker   *recordChecker
	latencies *latencies
	start     time.Duration // planned time of the first record
	last      time.Duration // when one arrived
}

func newArrivalTimer(size int, plan sendingPlan) *arrivalTimer {
	return &arrivalTimer{plan: plan, checker: newRecordChecker(size), latencies: newLatencies()}
}

// arrive is called for each record at once.
func (t *arrivalTimer) arrive(record []byte) error {
	t.last = now()
	number := t.checker.count()
	if number == 0 && len(record) >= plannedTimeAt+8 {
		t.start = time.Duration(binary.LittleEndian.Uint64(record[plannedTimeAt:]))
	}
	planned := t.start + t.plan.due(number)
	binary.LittleEndian.PutUint64(t.checker.body, uint64(planned))
	if err := t.checker.check(record); err != nil {
		return err
	}
	latency := t.last - planned
	if latency < 0 {
		return fmt.Errorf("record %d was planned %v after it arrived: %w", number, -latency, ErrContent)
	}
	if t.last >= t.start+t.plan.WarmUp {
		t.latencies.record(latency)
	}
	return nil
}

// result gets the span of the process and makes it that in which latencies were
// taken, but for the processor time.
func (t *arrivalTimer) result(span Span) (result, error) {
	span.Start, span.End = t.start+t.plan.WarmUp, t.last
	encoded, err := t.latencies.encode()
	return result{Span: span, Records: t.checker.count(), Latencies: encoded}, err
}
