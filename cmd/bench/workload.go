package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shuffled/bench"
	"shuffled/bench/results"
	"shuffled/internal/cli"
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

// A workloadKind is a command that runs a workload, and can be profiled.
type workloadKind struct {
	name, short, long, example string
	// define adds its flags. What it returns makes the workload, once they are read.
	define func(flags *pflag.FlagSet, stdout, stderr io.Writer) func() (*workload, error)
}

var workloadKinds = []workloadKind{
	{"wordcount", "Count the words of files, and compare with a count in one process", wordcountHelp,
		"  bench wordcount --input /usr/share/doc --consumers 4", wordCount},
	{"throughput", "Measure records a second, beside a plain ring, sockets, pipes and gRPC", throughputHelp,
		"  bench throughput --size 16,100 --transports shm,unix --rounds 7 --assert 'ratio_to_unix>=2'", throughput},
	{"latency", "Measure how long records are under way, beside sockets, pipes and bare round trips", latencyHelp,
		"  bench latency --path round-trip --waiting parked --json latency.json", latency},
	{"fanout", "Measure what a record costs with a thousand subpartitions, and their memory", fanoutHelp,
		"  bench fanout --subpartitions 8,1000 --transports shm", fanout},
	{"scale", "Measure what ten thousand idle partitions and gates take of one daemon", scaleHelp,
		"  bench scale --partitions 1000 --idle 60s", scale},
}

// command is the workload's command, which does with it what perform does.
func (k workloadKind) command(stdout, stderr io.Writer, perform func(context.Context, *workload) error) *cobra.Command {
	c := &cobra.Command{Use: k.name, Short: k.short, Long: k.long, Example: k.example, GroupID: workloadGroup,
		Args: cli.NoArguments}
	read := k.define(c.Flags(), stdout, stderr)
	c.RunE = func(c *cobra.Command, _ []string) error {
		w, err := read()
		if err != nil {
			return err
		}
		return perform(c.Context(), w)
	}
	return c
}

// runs is the command that runs a workload and keeps what it measured.
func (k workloadKind) runs(stdout, stderr io.Writer) *cobra.Command {
	return k.command(stdout, stderr, func(ctx context.Context, w *workload) error {
		run := func() (*results.File, error) { return w.run(ctx) }
		if k.name == "wordcount" { // which shows what it found itself
			_, err := run()
			return err
		}
		return w.out.keep(stdout, run)
	})
}

// environment is that of a workload before its flags are read.
func environment(stdout, stderr io.Writer) bench.Environment {
	return bench.Environment{Out: stdout, Progress: stderr, Fault: fault}
}
