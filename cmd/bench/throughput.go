package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"strconv"
	"strings"
	"time"

	"shuffled/bench"
	"shuffled/bench/results"
)

const throughputHelp = `usage: bench throughput [flags]

Measures how many records a second get from producer processes to consumer
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

With several producers and consumers, each producer sends to all consumers, keyed.
Rates are from the first record to the last as the consumers saw them; processor
time is that of all workers in that span, user and system.

`

// maxSeconds bounds a round.
const maxSeconds = 3600

func throughput(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	job := bench.Throughput{Out: stdout, Fault: fault}
	flags := flag.NewFlagSet("throughput", flag.ContinueOnError)
	sizes := flags.String("size", "100", "`bytes` of a record, or a list such as 16,100,1000,8000")
	seconds := flags.Float64("seconds", 2, "how many `seconds` the producers of a round send")
	flags.IntVar(&job.Rounds, "rounds", 5, "`number` of rounds of each transport")
	transports := flags.String("transports", "shm,ceiling,unix,tcp,pipe", "`list` of transports to measure")
	flags.IntVar(&job.Producers, "producers", 1, "`number` of producers")
	flags.IntVar(&job.Consumers, "consumers", 1, "`number` of consumers")
	flags.StringVar(&job.Socket, "socket", "", "`path` of the socket of a running daemon; by default one is started")
	var out outputs
	out.addFlags(flags)
	err := parse(flags, args, stdout, throughputHelp)
	if errors.Is(err, errHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if job.Sizes, err = parseSizes(*sizes); err != nil {
		return err
	}
	if job.Transports, err = bench.ParseTransports(*transports); err != nil {
		return usagef("-transports: %v", err)
	}
	if !(*seconds > 0 && *seconds <= maxSeconds) {
		return usagef("-seconds is %v, want more than 0 and at most %d", *seconds, maxSeconds)
	}
	job.Duration = time.Duration(*seconds * float64(time.Second))
	for _, check := range []error{
		checkCount("rounds", job.Rounds, 1000),
		checkCount("producers", job.Producers, bench.MaxWorkers),
		checkCount("consumers", job.Consumers, bench.MaxWorkers),
	} {
		if check != nil {
			return check
		}
	}
	if job.Launcher, err = launcher(stderr); err != nil {
		return err
	}
	return out.keep(stdout, func() (*results.File, error) { return job.Run(ctx) })
}

func parseSizes(list string) ([]int, error) {
	var sizes []int
	seen := make(map[int]bool)
	for field := range strings.SplitSeq(list, ",") {
		size, err := strconv.Atoi(strings.TrimSpace(field))
		if err != nil || size < bench.MinRecordSize || size > bench.MaxRecordSize {
			return nil, usagef("-size: %q, want a number of bytes from %d to %d", field, bench.MinRecordSize, bench.MaxRecordSize)
		}
		if seen[size] {
			return nil, usagef("-size: %d is given twice", size)
		}
		seen[size] = true
		sizes = append(sizes, size)
	}
	return sizes, nil
}
