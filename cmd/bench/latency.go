package main

import (
	"io"
	"time"

	"github.com/spf13/pflag"

	"shuffled/bench"
	"shuffled/internal/cli"
)

const latencyHelp = `Measures how long records are under way between two processes. All combinations
take turns, round by round, so that only ratios within one run count. Every record
carries a sequence number and a pattern, and its receiver compares all of it; wrong
content ends the run with exit code 1.

One way, the producer has a plan: record i is due i/rate seconds after the start.
A latency is the time from then to the moment when the consumer has the record, by
the monotonic clock of the machine. A producer that is late sends at once, and the
delay counts: a stall is in the latencies of all records that were due in it. When
the rate is not reached, the round ends a tenth of its time late, with records
unsent. Its row says "saturated", and what was achieved: latencies
are then those of a queue that grew for as long as the round lasted.

  shm   Emit to Records through a daemon, by default with a flush for each record
  unix  a write for each record to a Unix stream socket
  tcp   the same to TCP on the loopback interface
  pipe  the same to a pipe

Round trip, a record goes to another process, which checks it and answers with a
record of the same size; then the next one goes.

  shm         two partitions, a flush for each record; parked: Emit and Records;
              spinning: Emit and TryNext without a pause
  unix        two Unix stream sockets
  futex       no records: two processes count in words of one shared page, with
              FUTEX_WAKE and FUTEX_WAIT each time; what a machine can do that parks
  cache-line  the same, spinning on the words: what a machine can do at all

Where two sides park, the kernel often has both use one core, which is fast; with
--pin each has its own, and a wake-up goes from core to core.

Percentiles in the table are those of all rounds together; ratios are of the
medians of the rounds' p50. Each round has a warm-up of a fifth of --seconds, of
which nothing is kept.

`

func latency(flags *pflag.FlagSet, stdout, stderr io.Writer) func() (*workload, error) {
	job := bench.Latency{Environment: environment(stdout, stderr)}
	paths := flags.String("path", "one-way,round-trip", "`list` of what to measure: one-way, round-trip")
	transports := flags.String("transports", "shm,unix,tcp,pipe,futex,cache-line",
		"`list` of transports to measure; tcp and pipe are measured one way, futex and cache-line as round trips")
	waiting := flags.String("waiting", "both",
		"how to `wait`: parked, spinning or both. It chooses round trips; one way, producers sleep until 100 µs\nbefore a record is due and spin then, or only sleep with parked; consumers park")
	sizes := flags.String("size", "100", "`bytes` of a record, or a list such as 16,100,1000")
	rates := flags.String("rate", "1000,100000", "`list` of rates of records one way, in records a second")
	timeouts := flags.String("flush-timeout", "0",
		"`list` of how long a record one way through shm may wait for others: durations, 0 to flush every record")
	seconds := flags.Float64("seconds", 0.5, "how many `seconds` latencies are taken in a round")
	flags.IntVar(&job.Rounds, "rounds", 3, "`number` of rounds of each combination")
	flags.BoolVar(&job.Pin, "pin", false, "pin each worker to one core, in turn; it then uses that core only")
	flags.StringVar(&job.Histograms, "hdr", "",
		"`folder` to write histograms to: of each row, name.hgrm with percentiles and name.hlog with all values")
	flags.StringVar(&job.Socket, "socket", "", "`path` of the socket of a running daemon; by default one is started")
	var out outputs
	out.addFlags(flags)
	return func() (*workload, error) {
		var err error
		if job.Paths, err = bench.ParsePaths(*paths); err != nil {
			return nil, cli.Usagef("--path: %v", err)
		}
		if job.Transports, err = bench.ParseLatencyTransports(*transports); err != nil {
			return nil, cli.Usagef("--transports: %v", err)
		}
		if job.Waitings, err = bench.ParseWaiting(*waiting); err != nil {
			return nil, cli.Usagef("--waiting: %v", err)
		}
		if job.Sizes, err = parseSizes(*sizes); err != nil {
			return nil, err
		}
		if job.Rates, err = bench.ParseRates(*rates); err != nil {
			return nil, cli.Usagef("--rate: %v", err)
		}
		if job.FlushTimeouts, err = bench.ParseFlushTimeouts(*timeouts); err != nil {
			return nil, cli.Usagef("--flush-timeout: %v", err)
		}
		for _, timeout := range job.FlushTimeouts {
			if timeout < 0 || timeout > maxFlushTimeout {
				return nil, cli.Usagef("--flush-timeout: want 0 to %v: others are not flushed within a round",
					maxFlushTimeout)
			}
		}
		if !(*seconds > 0 && *seconds <= maxSeconds) {
			return nil, cli.Usagef("--seconds is %v, want more than 0 and at most %d", *seconds, maxSeconds)
		}
		job.Duration = time.Duration(*seconds * float64(time.Second))
		for _, rate := range job.Rates {
			if rate**seconds < 1 {
				return nil, cli.Usagef("--rate: at %v records a second none is due in %v seconds: give more --seconds",
					rate, *seconds)
			}
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

// maxFlushTimeout is the longest time that latencies are told apart for.
const maxFlushTimeout = time.Minute
