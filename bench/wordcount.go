package bench

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"sync"
	"time"

	"shuffled/bench/results"
	"shuffled/client"
	"shuffled/internal/units"
)

// ErrDifferent is returned when a count through the shuffle is not the one made
// without it.
var ErrDifferent = errors.New("counts differ")

// A WordCount counts words of files: producers read the files and emit words,
// keyed by the word, and consumers count them; then one process counts without a
// shuffle, and the two counts are compared.
type WordCount struct {
	Environment
	// Input is the folder or file to read.
	Input                string
	Producers, Consumers int
	// Embedded has all of it in this process, workers and daemon.
	Embedded bool
	// Top is how many of the most frequent words are shown.
	Top int
}

// Run counts, compares and writes the result. The last line says that the counts
// are identical. If they are not, Run shows the first differences and returns
// ErrDifferent. It ends all workers before it returns. The file has the words as
// records.
func (j *WordCount) Run(ctx context.Context) (*results.File, error) {
	files, err := ListInput(j.Input)
	if err != nil {
		return nil, err
	}
	text := inputSize(files)
	fmt.Fprintf(j.Out, "input: %s, %s of text in %s\n", units.Plural(len(files), "file"), units.FormatBytes(text),
		j.Input)
	exchange := Exchange{Name: newExchangeName(), Producers: j.Producers, Consumers: j.Consumers}
	file := results.New("wordcount")
	done, seen, err := j.shuffle(ctx, exchange, DealFiles(files, j.Producers), text)
	if err != nil {
		return nil, err
	}
	counts, moved, shared := NewWordCounts(), movedBytes(done), time.Duration(0)
	var all []Span
	for _, r := range done {
		counts.Merge(r.Words)
		all, shared = append(all, r.Span), max(shared, r.Span.CPU)
	}
	wall, cpu := spans(all)
	if j.Embedded {
		cpu = shared // each worker saw that of the whole process
	}
	j.showTop(counts)
	fmt.Fprintf(j.Out,
		"through the shuffle: %s words in %.2f s, %s million words/s, %s moved, %.2f s of processor time\n",
		units.GroupDigits(counts.Total), wall.Seconds(), units.FormatMillions(units.PerSecond(counts.Total, wall)),
		units.FormatBytes(moved), cpu.Seconds())
	round := results.Round{
		results.RecordsPerS: units.PerSecond(counts.Total, wall), results.BytesPerS: units.PerSecond(moved, wall),
	}
	maps.Copy(round, seen)
	file.Add(j.settings(), round)

	var timer spanTimer
	timer.begin()
	want, err := j.countAlone(ctx, files)
	if err != nil {
		return nil, err
	}
	shuffled := wall
	wall, cpu = spans([]Span{timer.end()})
	fmt.Fprintf(j.Out,
		"without a shuffle:   %s words in %.2f s, %s million words/s in one process, %.2f s of processor time\n",
		units.GroupDigits(want.Total), wall.Seconds(), units.FormatMillions(units.PerSecond(want.Total, wall)),
		cpu.Seconds())
	if shuffled > wall {
		fmt.Fprintln(j.Out, j.whySlower(runtime.NumCPU()))
	}
	if err := j.verify(counts, want); err != nil {
		return nil, err
	}
	return file.End(nil)
}

// whySlower says why workers do not count faster than one process.
func (j *WordCount) whySlower(cores int) string {
	return fmt.Sprintf("why not faster: %s share %s, and each word that one process counts where it finds it is here also given to a consumer, "+
		"serialised and read back; that pays where there are more cores, or more to do with each record",
		units.Plural(j.Producers+j.Consumers, "worker"), units.Plural(cores, "core"))
}

func (j *WordCount) settings() results.Settings {
	return results.Settings{Transport: string(Shm), Producers: j.Producers, Consumers: j.Consumers}
}

// movedBytes returns how much went through the shuffle.
func movedBytes(done []result) (moved int64) {
	for _, r := range done {
		moved += r.Bytes
	}
	return moved
}

func (j *WordCount) showTop(counts *WordCounts) {
	top := counts.Top(j.Top)
	if len(top) == 0 {
		return
	}
	fmt.Fprintln(j.Out, "top words:")
	width := len(units.GroupDigits(top[0].Count))
	for _, w := range top {
		fmt.Fprintf(j.Out, "  %*s  %s\n", width, units.GroupDigits(w.Count), printableWord(w.Word))
	}
}

func (j *WordCount) verify(got, want *WordCounts) error {
	const shown = 10
	differ := got.Differences(want)
	if len(differ) == 0 {
		fmt.Fprintf(j.Out, "verified: %d words, %d distinct, identical to the single-process count\n", got.Total,
			got.Distinct())
		return nil
	}
	for _, d := range differ[:min(shown, len(differ))] {
		fmt.Fprintf(j.Out, "differs: %v\n", d)
	}
	return fmt.Errorf("%d of %d words have another count than in a single process, the first is %s: %w",
		len(differ), max(got.Distinct(), want.Distinct()), differ[0], ErrDifferent)
}

// countAlone counts without a shuffle.
func (j *WordCount) countAlone(ctx context.Context, files []InputFile) (*WordCounts, error) {
	counts := NewWordCounts()
	_, err := eachWord(files, func(word []byte, _ int64) error {
		counts.Add(word)
		if counts.Total%wordsPerStep == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return nil
	})
	return counts, err
}

// shuffle counts through an exchange. It also returns what an observer saw.
func (j *WordCount) shuffle(ctx context.Context, e Exchange, hands [][]InputFile, text int64) ([]result, results.Round,
	error) {
	workers := func(where string) string {
		return fmt.Sprintf("workers: %s and %s, %s", units.Plural(j.Producers, "producer"),
			units.Plural(j.Consumers, "consumer"), where)
	}
	if j.Embedded {
		fmt.Fprintln(j.Out, workers("goroutines of this process"))
		done, err := j.shuffleEmbedded(ctx, e, hands, text)
		return done, nil, err
	}
	d, err := findDaemon(ctx, j.Socket)
	if err != nil {
		return nil, nil, err
	}
	defer d.stop()
	e.Socket = d.socket
	fmt.Fprintln(j.Out, workers("a process each"))
	fmt.Fprintf(j.Out, "daemon: %s\n", d.what)
	return j.shuffleProcesses(ctx, e, d, hands, text)
}

func (j *WordCount) producer(e Exchange, i int, files []InputFile) *wordProducer {
	p := &wordProducer{Exchange: e, Index: i, Files: files}
	if i == 0 {
		p.Fault = j.Fault
	}
	return p
}

func (j *WordCount) consumer(e Exchange, i int) *wordConsumer {
	c := &wordConsumer{Exchange: e, Index: i}
	if i == 0 {
		c.Fault = j.Fault
	}
	return c
}

func (j *WordCount) shuffleProcesses(ctx context.Context, e Exchange, d *service, hands [][]InputFile,
	text int64) ([]result, results.Round, error) {
	crew := newCrew(j.Launcher)
	crew.observer, crew.settings, crew.daemon = j.Observer, j.settings(), d
	defer crew.abandon()
	for i, files := range hands {
		if err := crew.start(Producer, i, j.producer(e, i, files)); err != nil {
			return nil, nil, err
		}
	}
	for i := range e.Consumers {
		if err := crew.start(Consumer, i, j.consumer(e, i)); err != nil {
			return nil, nil, err
		}
	}
	line := newProgressLine(j.Progress)
	defer line.end()
	done, err := crew.wait(ctx, func() {
		var done progressReport
		for _, m := range crew.members {
			done.Bytes += m.done.Bytes
			done.Words += m.done.Words
		}
		line.show(progressText(done, text))
	})
	if err != nil {
		return nil, nil, err
	}
	seen := results.Round{}
	return done, seen, crew.observed(seen, movedBytes(done))
}

func progressText(done progressReport, text int64) string {
	return fmt.Sprintf("read %s of %s, counted %s words", units.FormatBytes(done.Bytes), units.FormatBytes(text),
		units.GroupDigits(done.Words))
}

// shuffleEmbedded runs all workers as goroutines of this process.
func (j *WordCount) shuffleEmbedded(ctx context.Context, e Exchange, hands [][]InputFile, text int64) ([]result,
	error) {
	c, err := client.Embedded(client.EmbeddedConfig{Memory: daemonMemory}, client.WithName("bench"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	e.local = c
	var tasks []task
	for i, files := range hands {
		tasks = append(tasks, j.producer(e, i, files))
	}
	for i := range e.Consumers {
		tasks = append(tasks, j.consumer(e, i))
	}
	line := newProgressLine(j.Progress)
	defer line.end()
	return runTasks(ctx, tasks, func(done progressReport) { line.show(progressText(done, text)) })
}

// runTasks runs tasks as goroutines and returns their results in their order, or
// the error of the first that failed, which ends the others.
func runTasks(ctx context.Context, tasks []task, display func(progressReport)) ([]result, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	results, workers := make([]result, len(tasks)), make([]workerContext, len(tasks))
	ready, ended := sync.WaitGroup{}, sync.WaitGroup{}
	ready.Add(len(tasks))
	for i, t := range tasks {
		begun := sync.OnceFunc(ready.Done)
		workers[i] = workerContext{done: &progress{}, begin: func() error {
			begun()
			ready.Wait()
			return context.Cause(ctx)
		}}
		ended.Go(func() {
			defer begun()
			var err error
			if results[i], err = t.run(ctx, &workers[i]); err != nil {
				cancel(err) // the first call counts
			}
		})
	}
	all := make(chan struct{})
	go func() {
		ended.Wait()
		close(all)
	}()
	ticker := time.NewTicker(progressInterval)
	defer ticker.Stop()
	for {
		select {
		case <-all:
			return results, context.Cause(ctx)
		case <-ticker.C:
			var done progressReport
			for _, w := range workers {
				done.Bytes += w.done.bytes.Load()
				done.Words += w.done.words.Load()
			}
			display(done)
		}
	}
}
