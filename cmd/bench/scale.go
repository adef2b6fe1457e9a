package main

import (
	"io"
	"time"

	"github.com/spf13/pflag"

	"shuffled/bench"
	"shuffled/internal/cli"
)

const scaleHelp = `Measures what many partitions and gates at a time take of one daemon. A consumer
process opens all gates, of one input each, with a goroutine for each. A producer
process then creates a partition of one subpartition for each, one after the
other, and waits for each until its first record is there. When all are attached,
nothing flows for a second, and then processor time is taken for --idle. A second
record goes through each partition, and all are closed. Every record is checked;
wrong content ends the run with exit code 1, and so does a daemon that keeps
descriptors or shared memory. The table has, for each number of partitions:

  attach   time from when the producer begins to create a partition until its
           consumer has the first record; to create it is a part of that; to
           open a gate, which was done before
  shared   memory of all partitions and gates, as the kernel counts it
  daemon   resident memory of the daemon without that; descriptors, threads, and
           processor time while idle as a part of a core
  workers  memory of both workers, threads of the one with more, and processor
           time of both

A number that does not fit the limits of the machine (RLIMIT_NOFILE, which is
raised if that is allowed, vm.max_map_count, memory) is replaced by the largest
one that does; the results are then marked as partial.

`

// maxIdle bounds --idle.
const maxIdle = time.Hour

func scale(flags *pflag.FlagSet, stdout, stderr io.Writer) func() (*workload, error) {
	job := bench.Scale{Environment: environment(stdout, stderr)}
	partitions := flags.String("partitions", "1,10,100,1000,10000", "`list` of how many partitions and gates there are")
	flags.IntVar(&job.Rounds, "rounds", 1, "`number` of rounds of each number")
	flags.DurationVar(&job.Idle, "idle", 2*time.Second, "how `long` nothing flows while processor time is measured")
	timeout := flags.String("flush-timeout", "100ms",
		"how `long` a record may wait for its buffer to fill: a duration, 0 to flush every record, -1 for full buffers only")
	flags.StringVar(&job.Socket, "socket", "",
		"`path` of the socket of a running daemon that nobody else uses; by default one is started")
	var out outputs
	out.addFlags(flags)
	return func() (*workload, error) {
		var err error
		if job.Partitions, err = parseCounts("partitions", *partitions, bench.MaxScale); err != nil {
			return nil, err
		}
		if job.FlushTimeout, err = parseFlushTimeout(*timeout); err != nil {
			return nil, err
		}
		if job.Idle <= 0 || job.Idle > maxIdle {
			return nil, cli.Usagef("--idle is %v, want more than 0s and at most %v", job.Idle, maxIdle)
		}
		if err := checkCount("rounds", job.Rounds, 1000); err != nil {
			return nil, err
		}
		if job.Launcher, err = launcher(stderr); err != nil {
			return nil, err
		}
		return &workload{out: out, run: job.Run, observer: &job.Observer, rounds: &job.Rounds}, nil
	}
}
