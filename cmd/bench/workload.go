package main

import (
	"context"
	"errors"
	"io"

	"shuffled/bench"
	"shuffled/bench/results"
)

// A workload is a run that a command line asks for.
type workload struct {
	out outputs
	run func(ctx context.Context) (*results.File, error)
	// observer is where the run finds its observer, nil if there are no processes to
	// observe. rounds is how many rounds it has of each measurement, nil if it has
	// one.
	observer *bench.Observer
	rounds   *int
}

// workloads are the subcommands that run one, and can be profiled. They read
// their flags, or print their help and return errHelp.
var workloads = map[string]func(args []string, stdout, stderr io.Writer) (*workload, error){
	"throughput": throughput,
	"latency":    latency,
	"fanout":     fanout,
	"scale":      scale,
	"wordcount":  wordCount,
}

// runs is the subcommand that runs a workload and keeps what it measured.
func runs(read func(args []string, stdout, stderr io.Writer) (*workload, error)) func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	return func(ctx context.Context, args []string, stdout, stderr io.Writer) error {
		w, err := read(args, stdout, stderr)
		if errors.Is(err, errHelp) {
			return nil
		}
		if err != nil {
			return err
		}
		return w.out.keep(stdout, func() (*results.File, error) { return w.run(ctx) })
	}
}

// environment is that of a workload before its flags are read.
func environment(stdout, stderr io.Writer) bench.Environment {
	return bench.Environment{Out: stdout, Progress: stderr, Fault: fault}
}
