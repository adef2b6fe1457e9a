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
	"throughput": throughput,
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
	case len(args) == 1 && (args[0] == "wordcount" || args[0] == "throughput"):
		return commands[args[0]](ctx, []string{"-help"}, stdout, stderr)
	}
	return usagef("no help on %q: there is some on wordcount and throughput", strings.Join(args, " "))
}

const usage = `bench runs workloads on shuffled and checks what comes out.

  bench wordcount   count the words of files through the shuffle, and compare
                    with a count in one process
  bench throughput  measure records a second of the shuffle beside a plain ring in
                    shared memory, sockets and pipes
  bench version     print the version
  bench help NAME   say more of a subcommand

Both work on a running daemon (-socket) or start one of their own.
Exit codes: 0 done and content right; 1 failed, or content wrong; 2 wrong usage.
`
