// Command bench counts words through the shuffle, checked against the same count
// without it, and measures the shuffle beside other ways for records to get from
// one process to another. "bench help" says more; the work is in package bench.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"shuffled/bench"
)

// version is set by the build.
var version = "unknown"

// fault is what tests want to go wrong.
var fault bench.Fault

// workerCommand is the subcommand by which the program starts itself as a
// worker. It is not for people, so help does not name it.
const workerCommand = "worker"

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == workerCommand {
		os.Exit(bench.RunWorker(os.Stdin, os.Stdout))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, unix.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// commands are the subcommands that people use.
var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
	"wordcount":  wordcount,
	"throughput": runs(throughput),
	"latency":    runs(latency),
	"fanout":     runs(fanout),
	"scale":      runs(scale),
	"profile":    profiling,
	"audit":      audit,
	"compare":    compare,
	"report":     report,
	"version":    printVersion,
}

const helpCommand = "help"

// run does what the arguments say and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	name, command := args[0], commands[args[0]]
	switch name {
	case "-h", "-help", "--help", helpCommand:
		name, command = helpCommand, help
	}
	if command == nil {
		names := append(slices.Collect(maps.Keys(commands)), helpCommand)
		fmt.Fprintf(stderr, "bench: %v\n", unknown("subcommand", name, names))
		return exitUsage
	}
	err := command(ctx, args[1:], stdout, stderr)
	var wrongUsage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrongUsage):
		fmt.Fprintf(stderr, "bench %s: %v\n", name, err)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		fmt.Fprintf(stderr, "bench %s: stopped: %v\n", name, context.Cause(ctx))
		return exitFailed
	default:
		fmt.Fprintf(stderr, "bench %s: %v\n", name, err)
		return exitFailed
	}
}

func printVersion(_ context.Context, args []string, stdout, _ io.Writer) error {
	if len(args) > 0 {
		return usagef("it takes no arguments, got %q", args[0])
	}
	fmt.Fprintln(stdout, version)
	return nil
}

func help(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	switch {
	case len(args) == 0:
		fmt.Fprint(stdout, usage)
		return nil
	case len(args) == 1 && args[0] != "version" && commands[args[0]] != nil:
		return commands[args[0]](ctx, []string{"-help"}, stdout, stderr)
	}
	return usagef("no help on %q: give the name of one subcommand that bench help lists, but version", strings.Join(args, " "))
}

const usage = `bench runs workloads on shuffled and checks what comes out.

  bench wordcount   count the words of files through the shuffle, and compare
                    with a count in one process
  bench throughput  measure records a second of the shuffle beside a plain ring in
                    shared memory, sockets, pipes and gRPC
  bench latency     measure how long records are under way, one way and there and
                    back, beside sockets, pipes and bare round trips
  bench fanout      measure what a record costs when producers have a thousand
                    subpartitions, and the memory of each
  bench scale       measure what ten thousand partitions and gates take of one daemon
                    while nothing flows, and how long each takes to attach
  bench profile     run one of these and tell what the kernel does for its processes:
                    copies, system calls, wake-ups, faults; or look at others
  bench audit       count copies, system calls and wake-ups of the shuffle beside
                    sockets, and fail if it is above a limit
  bench compare     compare the results of two runs that -json wrote
  bench report      make an HTML page of results that -json wrote
  bench version     print the version
  bench help NAME   say more of a subcommand

Workloads work on a running daemon (-socket) or start one of their own.
Exit codes: 0 done and content right; 1 failed, content wrong, or not what -assert
or -fail-on-worse wants; 2 wrong usage.
`
