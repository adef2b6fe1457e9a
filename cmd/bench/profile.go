package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"shuffled/bench/profile"
	"shuffled/bench/results"
	"shuffled/internal/cli"
)

const profileHelp = `Tells what the kernel does for producers, consumers and the daemon: bytes copied,
system calls, wake-ups, their latency and who causes them, time without a core and
why, page faults. The figures are those of a workload, which is one of the other
subcommands, such as

  bench profile -- throughput --transports shm,unix --size 100 --rounds 2

or of processes that run already, from now on:

  bench profile --pid producer=123,consumer=456,daemon=789 --for 10s

eBPF programs count in the kernel, which takes root or CAP_BPF and CAP_PERFMON, and
a kernel that describes its types (BTF). Without, the files of /proc tell some of
the figures, and the others show "not measured".

Counting costs time. So a workload is run with twice as many rounds: every second
one is left alone, without any program in the kernel, and the report compares the
two. In the file of --json, rounds with and without are measurements of their own.

With --handoff, the time that buffers of the shuffle take from producer to consumer
is measured, too. For that both are stopped for a moment at every 64th buffer, which
costs more than all the rest: about a tenth of the records on a virtual machine.

`

// maxWatch bounds --for.
const maxWatch = time.Hour

func profiling(stdout, stderr io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use:     "profile [flags] -- WORKLOAD [its flags]",
		Short:   "Run a workload, or watch processes, and tell what the kernel does for them",
		Long:    profileHelp,
		Example: "  bench profile -- throughput --size 100 --transports shm,unix\n  bench profile --pid producer=123,consumer=456 --for 10s",
		GroupID: kernelGroup,
	}
	flags := c.Flags()
	flags.SetInterspersed(false)
	pids := flags.String("pid", "",
		"`list` of processes that run already, such as 123,456 or producer=123,consumer=456,daemon=789")
	duration := flags.Duration("for", 10*time.Second, "how `long` to watch the processes of --pid")
	path := flags.String("json", "", "`file` to write the results to, as --json of the workload does")
	noOverhead := flags.Bool("no-overhead", false, "do not find out what counting costs: leave no rounds alone")
	handoff := flags.Bool("handoff", false,
		"time buffers on their way from producer to consumer, which slows both down")
	noBPF := flags.Bool("no-bpf", false, "read the files of /proc, though eBPF may be possible")
	c.RunE = func(c *cobra.Command, args []string) error {
		options := profile.Options{NoBPF: *noBPF}
		if *pids != "" {
			if len(args) > 0 || *noOverhead {
				return cli.Usagef("--pid is for processes that run already: leave out the workload and --no-overhead")
			}
			if *duration <= 0 || *duration > maxWatch {
				return cli.Usagef("--for is %v, want more than 0 and at most %v", *duration, maxWatch)
			}
			processes, err := parseProcesses(*pids)
			if err != nil {
				return err
			}
			if *handoff {
				options.Executable = processProgram(processes[0])
			}
			return watch(c.Context(), options, processes, *duration, *path, stdout)
		}
		if flags.Changed("for") {
			return cli.Usagef("--for is for the processes of --pid: a workload has flags for how long it runs")
		}
		return profileWorkload(c.Context(), args, stdout, stderr, func(ctx context.Context, w *workload) error {
			if w.observer == nil {
				return cli.Usagef("nothing to observe: with --embedded, %s has no processes", args[0])
			}
			if *path != "" && w.out.json != "" {
				return cli.Usagef("--json is given twice, before the workload and after it")
			}
			w.out.json = cmp.Or(*path, w.out.json)
			if *handoff {
				var err error
				if options.Executable, err = os.Executable(); err != nil {
					return fmt.Errorf("find this program, to watch its workers: %w", err)
				}
			}
			p, err := profile.New(options, !*noOverhead && w.rounds != nil)
			if err != nil {
				return err
			}
			defer p.Close()
			f, err := observe(ctx, p, w, stdout, stderr)
			if f == nil {
				return err
			}
			return errors.Join(err, showProfiles(f, stdout))
		})
	}
	return c
}

// profileWorkload reads what is to be profiled, and has it done.
func profileWorkload(ctx context.Context, args []string, stdout, stderr io.Writer,
	perform func(context.Context, *workload) error) error {
	root := &cobra.Command{Use: "bench", Long: profileHelp}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddGroup(&cobra.Group{ID: workloadGroup, Title: "Workloads:"})
	var names []string
	for _, k := range workloadKinds {
		root.AddCommand(k.command(stdout, stderr, perform))
		names = append(names, k.name)
	}
	slices.Sort(names)
	switch {
	case len(args) == 0:
		return cli.Usagef("nothing to profile: give --pid, or one of the workloads %s and its flags",
			strings.Join(names, ", "))
	case !slices.Contains(names, args[0]):
		return cli.Unknown("workload", args[0], names)
	}
	cli.Prepare(root)
	_, err := cli.Execute(ctx, root, args)
	return err
}

// observe runs a workload with an observer and keeps what both measured. It
// returns that, too, unless there is nothing.
func observe(ctx context.Context, p *profile.Profiler, w *workload, stdout, stderr io.Writer) (f *results.File,
	err error) {
	if why := p.Unsupported(); why != "" {
		fmt.Fprintf(stderr, "without eBPF, figures come from /proc, which has fewer: %s\n", why)
	}
	if p.Compares() {
		*w.rounds *= 2
	}
	*w.observer = p
	err = w.out.keep(stdout, func() (*results.File, error) {
		var err error
		if f, err = w.run(ctx); f != nil {
			p.Finish(f)
		}
		return f, err
	})
	return f, err
}

func showProfiles(f *results.File, stdout io.Writer) error {
	for _, report := range profile.Describe(f) {
		fmt.Fprintln(stdout)
		if err := report.WriteText(stdout); err != nil {
			return err
		}
	}
	return nil
}
