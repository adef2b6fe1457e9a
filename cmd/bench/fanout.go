package main

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"shuffled/bench"
	"shuffled/internal/cli"
)

const fanoutHelp = `Measures what a record costs when every producer sends to many consumers, keyed:
a process for each producer, and for each subpartition a consumer, a goroutine
with a gate of its own; the consumers share --processes. Every record is checked;
wrong content ends the run with exit code 1.

A round has a burst that brings all memory into use, a rest of 400ms in which
nothing flows, and then what is measured. The table has, for each number of
subpartitions:

  CPU ns/record  processor time of all workers, and what that is "of 8"
                 subpartitions
  allocs/record  heap allocations of all workers
  wake-ups/MiB   how often producers and gates slept, by their shared counters
  KiB each       shared memory of a subpartition in the rest, "unused" before its
                 first record, and at its peak
  KiB/gate       that of a gate

Memory is what the kernel holds for the objects of the daemon; of a daemon of
another user it is not known. unix is the same job over a Unix stream socket for
each producer and subpartition, with a buffer of 32 KiB for writing and 64 KiB for
reading.

`

func fanout(flags *pflag.FlagSet, stdout, stderr io.Writer) func() (*workload, error) {
	job := bench.Fanout{Environment: environment(stdout, stderr)}
	subpartitions := flags.String("subpartitions", "1,8,64,512,1000",
		"`list` of how many subpartitions each producer has")
	flags.IntVar(&job.Size, "size", 100, "`bytes` of a record")
	seconds := flags.Float64("seconds", 1, "how many `seconds` the producers of a round send")
	flags.IntVar(&job.Rounds, "rounds", 3, "`number` of rounds of each combination")
	transports := flags.String("transports", "shm,unix", "`list` of transports to measure, of these two")
	timeout := flags.String("flush-timeout", "100ms",
		"how `long` a record may wait for its buffer to fill: a duration, 0 to flush every record, -1 for full buffers only")
	flags.IntVar(&job.Producers, "producers", 1, "`number` of producers")
	flags.IntVar(&job.Processes, "processes", 1, "`number` of processes that the consumers share")
	flags.StringVar(&job.Socket, "socket", "", "`path` of the socket of a running daemon; by default one is started")
	var out outputs
	out.addFlags(flags)
	return func() (*workload, error) {
		var err error
		if job.Subpartitions, err = parseCounts("subpartitions", *subpartitions, bench.MaxFanout); err != nil {
			return nil, err
		}
		if job.Transports, err = bench.ParseTransports(*transports); err != nil {
			return nil, cli.Usagef("--transports: %v", err)
		}
		for _, t := range job.Transports {
			if !slices.Contains(bench.FanoutTransports, t) {
				return nil, cli.Usagef("--transports: %s is not measured here, want shm, unix or both", t)
			}
		}
		if job.FlushTimeout, err = parseFlushTimeout(*timeout); err != nil {
			return nil, err
		}
		if job.Duration, err = parseSeconds(*seconds); err != nil {
			return nil, err
		}
		if job.Size < bench.MinRecordSize || job.Size > bench.MaxRecordSize {
			return nil, cli.Usagef("--size is %d, want %d to %d", job.Size, bench.MinRecordSize, bench.MaxRecordSize)
		}
		for _, check := range []error{
			checkCount("rounds", job.Rounds, 1000),
			checkCount("producers", job.Producers, bench.MaxWorkers),
			checkCount("processes", job.Processes, bench.MaxWorkers),
		} {
			if check != nil {
				return nil, check
			}
		}
		if job.Launcher, err = launcher(stderr); err != nil {
			return nil, err
		}
		return &workload{out: out, run: job.Run, observer: &job.Observer, rounds: &job.Rounds}, nil
	}
}

// parseCounts reads a list of numbers from 1 to most.
func parseCounts(flag, list string, most int) (counts []int, err error) {
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || n < 1 || n > most {
			return nil, cli.Usagef("--%s: %q, want numbers from 1 to %d", flag, field, most)
		}
		if slices.Contains(counts, n) {
			return nil, cli.Usagef("--%s: %d is given twice", flag, n)
		}
		counts = append(counts, n)
	}
	return counts, nil
}

// parseFlushTimeout reads a single one.
func parseFlushTimeout(text string) (time.Duration, error) {
	timeouts, err := bench.ParseFlushTimeouts(text)
	if err != nil {
		return 0, cli.Usagef("--flush-timeout: %v", err)
	}
	if len(timeouts) > 1 {
		return 0, cli.Usagef("--flush-timeout: %q, want a single one", text)
	}
	return timeouts[0], nil
}

func parseSeconds(seconds float64) (time.Duration, error) {
	if !(seconds > 0 && seconds <= maxSeconds) {
		return 0, cli.Usagef("--seconds is %v, want more than 0 and at most %d", seconds, maxSeconds)
	}
	return time.Duration(seconds * float64(time.Second)), nil
}
