package main

import (
	"io"

	"github.com/spf13/pflag"

	"shuffled/bench"
	"shuffled/internal/cli"
)

const wordcountHelp = `Counts the words of all files below a folder. Producer processes read the files,
which are dealt to them by size, and emit the words, keyed by the word; consumer
processes count what they get. Then one process counts the same files without a
shuffle. The last line says that both counts are identical; if they are not, the
exit code is 1.

A word is a longest run of ASCII letters, digits, underscores and bytes from 0x80
on, so that letters in UTF-8 are parts of words. Case matters.

`

// wordCount defines the flags of wordcount and reads them.
func wordCount(flags *pflag.FlagSet, stdout, stderr io.Writer) func() (*workload, error) {
	job := bench.WordCount{Environment: environment(stdout, stderr)}
	flags.StringVar(&job.Input, "input", "",
		"`folder` or file to count; by default the source tree of the Go installation")
	flags.IntVar(&job.Producers, "producers", 2, "`number` of producers")
	flags.IntVar(&job.Consumers, "consumers", 2, "`number` of consumers")
	flags.BoolVar(&job.Embedded, "embedded", false,
		"have everything in this one process: workers as goroutines, and the daemon")
	flags.StringVar(&job.Socket, "socket", "", "`path` of the socket of a running daemon; by default one is started")
	flags.IntVar(&job.Top, "top", 10, "`number` of the most frequent words to show")
	return func() (*workload, error) {
		var err error
		if err := checkCount("producers", job.Producers, bench.MaxWorkers); err != nil {
			return nil, err
		}
		if err := checkCount("consumers", job.Consumers, bench.MaxWorkers); err != nil {
			return nil, err
		}
		if job.Embedded && job.Socket != "" {
			return nil, cli.Usagef("--embedded has its own daemon: leave out --socket, or --embedded")
		}
		if job.Top < 0 {
			return nil, cli.Usagef("--top is %d, want 0 or more", job.Top)
		}
		if job.Input == "" {
			if job.Input, err = bench.DefaultInput(); err != nil {
				return nil, err
			}
		}
		if job.Launcher, err = launcher(stderr); err != nil {
			return nil, err
		}
		w := &workload{run: job.Run}
		if !job.Embedded {
			w.observer = &job.Observer
		}
		return w, nil
	}
}
