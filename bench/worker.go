package bench

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"shuffled/bench/results"
	"shuffled/shuffle"
)

// A job is what a worker process is started with, on its standard input.
type job struct{ Task task }

func init() {
	for _, t := range []task{&wordProducer{}, &wordConsumer{}, &recordProducer{}, &recordConsumer{},
		&timedProducer{}, &timedConsumer{}, &pinger{}, &ponger{}, &barePinger{}, &barePonger{},
		&fanoutProducer{}, &fanoutConsumer{}, &scaleProducer{}, &scaleConsumer{}} {
		gob.Register(t)
	}
}

// A task is the work of one worker. It gets ready, calls w.begin, and works. When
// it returns, what it opened for its work is closed: the process goes on until
// the tasks of all workers have returned.
type task interface {
	run(ctx context.Context, w *workerContext) (result, error)
}

// A workerContext is what a task knows of its surroundings.
type workerContext struct {
	// begin returns once all workers are ready.
	begin func() error
	// done counts what the task has done so far, for display.
	done *progress
}

// progress is counted by one task and read by whoever displays it.
type progress struct{ bytes, words atomic.Int64 }

// A result is what a task has done. Fields that do not apply to it stay zero.
type result struct {
	Span    Span
	Records int64
	// Bytes is how much a producer moved, length prefixes included.
	Bytes int64
	Words []CountedWord
	// Before is how many of the records came before the span.
	Before int64
	// Latencies are those that the worker took.
	Latencies *encodedLatencies
	// Figures are those of the round that the worker found itself.
	Figures results.Round
	// Firsts are the numbers of the first records by producer, where a consumer
	// gets them in turn; -1 for none.
	Firsts []int64
}

// A report is what a worker process tells its parent on its standard output. One
// field is set.
type report struct {
	Ready    bool
	Worked   bool
	Progress *progressReport
	Result   *result
	Failure  *failure
}

type progressReport struct{ Bytes, Words int64 }

// A failure is the error that ended a worker. It is a consequence if it can come
// of another worker's end.
type failure struct {
	Text        string
	Consequence bool
}

func newFailure(err error) *failure {
	f := &failure{Text: err.Error()}
	for _, consequence := range []error{
		shuffle.ErrProducerLost, shuffle.ErrConsumerLost, shuffle.ErrPartitionFailed, unix.EPIPE, unix.ECONNRESET,
		io.ErrUnexpectedEOF,
		errCallLost,
	} {
		f.Consequence = f.Consequence || errors.Is(err, consequence)
	}
	return f
}

const (
	// progressInterval is how often progress is reported and displayed.
	progressInterval = 100 * time.Millisecond
	// idleProgressInterval is how often a worker looks for it after so many looks
	// that found none.
	idleProgressInterval = time.Second
	ticksToIdle          = 5
)

// RunWorker is the main function of a worker process, which a [Launcher] starts:
// it reads its job from in, reports to out, and returns the exit code. It ends
// the process when in ends, since then its parent is gone. Descriptors from 3 on
// belong to the job.
func RunWorker(in io.Reader, out io.Writer) int {
	// Ctrl-C reaches the whole foreground; the parent decides.
	signal.Ignore(os.Interrupt)
	orders := gob.NewDecoder(in)
	reports := &reporter{out: gob.NewEncoder(out)}
	var j job
	if err := orders.Decode(&j); err != nil {
		fmt.Fprintf(os.Stderr, "bench worker: read job: %v: this subcommand is for the program itself\n", err)
		return 1
	}
	began, finished := make(chan struct{}), make(chan struct{})
	go func() {
		for _, next := range []chan struct{}{began, finished} {
			var goOn bool
			if orders.Decode(&goOn) != nil {
				os.Exit(1)
			}
			close(next)
		}
		_ = orders.Decode(new(bool)) // returns when the parent is gone
		os.Exit(1)
	}()
	w := &workerContext{done: &progress{}, begin: func() error {
		if err := reports.send(report{Ready: true}); err != nil {
			return err
		}
		<-began
		return nil
	}}
	stop := reports.repeat(w.done)
	res, err := runJob(context.Background(), j, w)
	stop()
	if err != nil {
		_ = reports.send(report{Failure: newFailure(err)})
		return 1
	}
	err = reports.send(report{Worked: true})
	if err == nil {
		<-finished
		err = reports.send(report{Result: &res})
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench worker: report result: %v\n", err)
		return 1
	}
	return 0
}

func runJob(ctx context.Context, j job, w *workerContext) (result, error) {
	if j.Task == nil {
		return result{}, errors.New("job is empty: this subcommand is for the program itself")
	}
	return j.Task.run(ctx, w)
}

// A reporter sends reports from several goroutines.
type reporter struct {
	mu  sync.Mutex
	out *gob.Encoder
}

func (r *reporter) send(rep report) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.out.Encode(rep); err != nil {
		return fmt.Errorf("report to parent: %w", err)
	}
	return nil
}

// repeat reports progress until stop returns.
func (r *reporter) repeat(done *progress) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		last, same := progressReport{}, 0
		for {
			select {
			case <-end:
				return
			case <-ticker.C:
			}
			now := progressReport{Bytes: done.bytes.Load(), Words: done.words.Load()}
			if now == last {
				// A worker that idles is to be idle.
				if same++; same == ticksToIdle {
					ticker.Reset(idleProgressInterval)
				}
				continue
			}
			if same >= ticksToIdle {
				ticker.Reset(progressInterval)
			}
			last, same = now, 0
			_ = r.send(report{Progress: &now}) // the result will tell
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
