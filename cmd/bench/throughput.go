package main

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"shuffled/bench"
	"shuffled/internal/cli"
)

const throughputHelp = `Measures how many records a second get from producer processes to consumer
processes. The transports take turns, round by round, so that only ratios within
one run count. Every record carries a sequence number and a pattern, and the
consumer compares all of it; wrong content ends the run with exit code 1.

  shm      the public API of the shuffle, through a daemon
  ceiling  a plain ring of 128 segments of 32 KiB in shared memory, both sides
           spinning: what the machine can do; one producer and one consumer only
  unix     length-prefixed records through a Unix stream socket, with a buffer of
           32 KiB for writing and 64 KiB for reading
  tcp      the same through TCP on the loopback interface
  pipe     the same through a pipe
  grpc     grpc-go through a Unix stream socket, as many programs do it: a
           client-streaming call, for each record a message with one field of bytes

With several producers and consumers, each producer sends to all consumers.
Rates are from the first record to the last as the consumers saw them; processor
time and heap allocations are those of all workers in that span.

--partition-type, --flush-timeout and --via are settings of shm, --distribution is
one of all transports with several consumers. Each takes a list; every combination
is measured and has a row of its own, in the table and in the file of --json. With
--via reserve, records are written in place with Reserve and Commit of the
partition, not with Emit of a RecordWriter; they must fit a segment.

`

// maxSeconds bounds a round.
const maxSeconds = 3600

func throughput(flags *pflag.FlagSet, stdout, stderr io.Writer) func() (*workload, error) {
	job := bench.Throughput{Environment: environment(stdout, stderr)}
	sizes := flags.String("size", "100", "`bytes` of a record, or a list such as 16,100,1000,8000")
	seconds := flags.Float64("seconds", 2, "how many `seconds` the producers of a round send")
	flags.IntVar(&job.Rounds, "rounds", 5, "`number` of rounds of each transport")
	transports := flags.String("transports", "shm,ceiling,unix,tcp,pipe",
		"`list` of transports to measure, grpc may be among them")
	types := flags.String("partition-type", "pipelined-bounded",
		"`list` of partition types: pipelined, pipelined-bounded")
	timeouts := flags.String("flush-timeout", "100ms",
		"`list` of how long a record may wait for its buffer to fill: durations, 0 to flush every record, -1 for full buffers only")
	ways := flags.String("via", "emit", "`list` of ways to write a record: emit, reserve")
	distributions := flags.String("distribution", "keyed",
		"`list` of how several consumers share records: keyed, round-robin")
	flags.BoolVar(&job.Pin, "pin", false, "pin each worker to one core, in turn; it then uses that core only")
	flags.IntVar(&job.Producers, "producers", 1, "`number` of producers")
	flags.IntVar(&job.Consumers, "consumers", 1, "`number` of consumers")
	flags.StringVar(&job.Socket, "socket", "", "`path` of the socket of a running daemon; by default one is started")
	var out outputs
	out.addFlags(flags)
	return func() (*workload, error) {
		var err error
		if job.Sizes, err = parseSizes(*sizes); err != nil {
			return nil, err
		}
		if job.Transports, err = bench.ParseTransports(*transports); err != nil {
			return nil, cli.Usagef("--transports: %v", err)
		}
		if job.PartitionTypes, err = bench.ParsePartitionTypes(*types); err != nil {
			return nil, cli.Usagef("--partition-type: %v", err)
		}
		if job.FlushTimeouts, err = bench.ParseFlushTimeouts(*timeouts); err != nil {
			return nil, cli.Usagef("--flush-timeout: %v", err)
		}
		if job.Vias, err = bench.ParseVias(*ways); err != nil {
			return nil, cli.Usagef("--via: %v", err)
		}
		if job.Distributions, err = bench.ParseDistributions(*distributions); err != nil {
			return nil, cli.Usagef("--distribution: %v", err)
		}
		if flags.Changed("distribution") && job.Consumers == 1 {
			return nil, cli.Usagef("--distribution is for several consumers: give --consumers as well")
		}
		if !(*seconds > 0 && *seconds <= maxSeconds) {
			return nil, cli.Usagef("--seconds is %v, want more than 0 and at most %d", *seconds, maxSeconds)
		}
		job.Duration = time.Duration(*seconds * float64(time.Second))
		for _, check := range []error{
			checkCount("rounds", job.Rounds, 1000),
			checkCount("producers", job.Producers, bench.MaxWorkers),
			checkCount("consumers", job.Consumers, bench.MaxWorkers),
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

func parseSizes(list string) ([]int, error) {
	var sizes []int
	seen := make(map[int]bool)
	for field := range strings.SplitSeq(list, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || size < bench.MinRecordSize || size > bench.MaxRecordSize {
			return nil, cli.Usagef("--size: %q, want a number of bytes from %d to %d", field, bench.MinRecordSize,
				bench.MaxRecordSize)
		}
		if seen[size] {
			return nil, cli.Usagef("--size: %d is given twice", size)
		}
		seen[size] = true
		sizes = append(sizes, size)
	}
	return sizes, nil
}
