package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"shuffled/bench"
	"shuffled/bench/profile"
	"shuffled/bench/results"
	"shuffled/internal/cli"
)

const auditHelp = `Counts what the kernel does for each transport while records go from a producer
process to a consumer process: bytes copied, system calls and wake-ups. If shm is
above one of the limits, the exit code is 1.

Figures are medians over rounds, of producers and consumers together, from when all
are ready until all have done their work. What each does at the beginning and at the
end is in it: about a hundred calls, which is little beside some thousand MiB and
much beside a few. The daemon is shown by itself. Records a second are those with
counting, which costs time: bench profile tells how much.

eBPF programs count in the kernel, which takes root or CAP_BPF and CAP_PERFMON, and
a kernel that describes its types (BTF). Without, bytes come from /proc, and calls
and wake-ups are not measured; then only limits that are given on the command line
make shm fail for that.

`

func audit(stdout, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use: "audit", Short: "Count copies, system calls and wake-ups beside sockets, and fail above a limit",
		Long:    auditHelp,
		Example: "  bench audit --size 100,1000 --max-syscalls 0.5", GroupID: kernelGroup, Args: cli.NoArguments,
	}
	job := bench.Throughput{Environment: environment(stdout, stderr)}
	flags := c.Flags()
	transports := flags.String("transports", "shm,unix,tcp",
		"`list` of transports to count for: shm, ceiling, unix, tcp, pipe, grpc")
	sizes := flags.String("size", "100", "`bytes` of a record, or a list such as 16,100,1000,8000")
	seconds := flags.Float64("seconds", 2, "how many `seconds` the producers of a round send")
	flags.IntVar(&job.Rounds, "rounds", 3, "`number` of rounds of each transport")
	flags.IntVar(&job.Producers, "producers", 1, "`number` of producers")
	flags.IntVar(&job.Consumers, "consumers", 1, "`number` of consumers")
	flags.StringVar(&job.Socket, "socket", "", "`path` of the socket of a running daemon; by default one is started")
	noBPF := flags.Bool("no-bpf", false, "read the files of /proc, though eBPF may be possible")
	var l auditLimits
	l.addFlags(flags)
	w := &workload{observer: &job.Observer, rounds: &job.Rounds, run: func(ctx context.Context) (*results.File, error) {
		f, err := job.Run(ctx)
		if f != nil {
			f.Workload = "audit"
		}
		return f, err
	}}
	w.out.addFlags(flags)
	c.RunE = func(c *cobra.Command, _ []string) (err error) {
		ctx := c.Context()
		if job.Sizes, err = parseSizes(*sizes); err != nil {
			return err
		}
		if job.Transports, err = bench.ParseTransports(*transports); err != nil {
			return cli.Usagef("--transports: %v", err)
		}
		if job.Duration, err = parseSeconds(*seconds); err != nil {
			return err
		}
		for _, check := range []error{
			checkCount("rounds", job.Rounds, 1000),
			checkCount("producers", job.Producers, bench.MaxWorkers),
			checkCount("consumers", job.Consumers, bench.MaxWorkers),
			l.check(),
		} {
			if check != nil {
				return check
			}
		}
		if job.Launcher, err = launcher(stderr); err != nil {
			return err
		}
		p, err := profile.New(profile.Options{NoBPF: *noBPF}, false)
		if err != nil {
			return err
		}
		defer p.Close()
		f, err := observe(ctx, p, w, stdout, stderr)
		if f == nil {
			return err
		}
		fmt.Fprintln(stdout)
		return errors.Join(err, profile.ByRole(f).WriteText(stdout), l.verdict(f, flags, stdout))
	}
	return c
}

// auditLimits are what shm may take of the kernel.
type auditLimits struct{ profile.Limits }

// auditFlags are those of the limits, in the order of their verdicts.
var auditFlags = []string{"max-copied", "max-syscalls", "max-wakeups"}

func (l *auditLimits) addFlags(flags *pflag.FlagSet) {
	flags.Float64Var(&l.CopiedPerByte, auditFlags[0], 0.001,
		"how many `bytes` the kernel may copy for each byte of records through shm")
	flags.Float64Var(&l.SystemCallsPerMiB, auditFlags[1], 1,
		"how many system `calls` shm may make for each MiB of records")
	flags.Float64Var(&l.WakeupsPerMiB, auditFlags[2], math.Inf(1),
		"how many `wake-ups` shm may have for each MiB of records")
}

func (l *auditLimits) check() error {
	for i, limit := range []float64{l.CopiedPerByte, l.SystemCallsPerMiB, l.WakeupsPerMiB} {
		if !(limit >= 0) {
			return cli.Usagef("--%s is %v, want 0 or more", auditFlags[i], limit)
		}
	}
	return nil
}

// verdict compares all measurements of shm with the limits.
func (l *auditLimits) verdict(f *results.File, flags *pflag.FlagSet, stdout io.Writer) error {
	var above, unknown []string
	for _, m := range f.Results {
		if m.Transport != string(bench.Shm) {
			continue
		}
		for i, v := range l.Check(m) {
			fmt.Fprintf(stdout, "shm, %d bytes: %v\n", m.RecordSize, v)
			switch {
			case v.Failed():
				above = append(above, "--"+auditFlags[i])
			case !v.Measured && flags.Changed(auditFlags[i]):
				unknown = append(unknown, "--"+auditFlags[i])
			}
		}
	}
	switch {
	case len(above) > 0:
		return fmt.Errorf("shm is above %s", strings.Join(above, ", "))
	case len(unknown) > 0:
		return fmt.Errorf("not measured, so that %s cannot be checked", strings.Join(unknown, ", "))
	}
	return nil
}
