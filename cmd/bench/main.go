// Command bench counts words through the shuffle, checked against the same count
// without it, and measures the shuffle beside other ways for records to get from
// one process to another. "bench help" says more; the work is in package bench.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"shuffled/bench"
	"shuffled/internal/cli"
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

// Groups of commands in the help.
const (
	workloadGroup = "workload"
	kernelGroup   = "kernel"
	resultGroup   = "result"
)

const longHelp = `bench runs workloads on shuffled and checks what comes out. Workloads work on a
running daemon (--socket) or start one of their own.

Exit codes: 0 done and content right; 1 failed, content wrong, or not what --assert
or --fail-on-worse wants; 2 wrong usage.`

// newProgram makes the command of the program, with all others.
func newProgram(stdout, stderr io.Writer) *cobra.Command {
	root := &cobra.Command{Use: "bench", Short: "Run workloads on shuffled, and check what comes out", Long: longHelp}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.AddGroup(
		&cobra.Group{ID: workloadGroup, Title: "Workloads:"},
		&cobra.Group{ID: kernelGroup, Title: "What the kernel does:"},
		&cobra.Group{ID: resultGroup, Title: "Results that --json wrote:"},
	)
	for _, k := range workloadKinds {
		root.AddCommand(k.runs(stdout, stderr))
	}
	root.AddCommand(profiling(stdout, stderr), audit(stdout, stderr), compare(stdout), report(stdout), &cobra.Command{
		Use: "version", Short: "Print the version", Args: cli.NoArguments,
		Run: func(*cobra.Command, []string) { fmt.Fprintln(stdout, version) },
	})
	cli.Prepare(root)
	return root
}

// run does what the arguments say and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	command, err := cli.Execute(ctx, newProgram(stdout, stderr), args)
	var wrongUsage *cli.UsageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &wrongUsage):
		fmt.Fprintf(stderr, "%s: %v\n", command.CommandPath(), err)
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
		fmt.Fprintf(stderr, "%s: stopped: %v\n", command.CommandPath(), context.Cause(ctx))
	default:
		fmt.Fprintf(stderr, "%s: %v\n", command.CommandPath(), err)
	}
	return exitFailed
}
