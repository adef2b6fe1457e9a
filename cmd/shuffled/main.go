// Command shuffled is the shuffle service: a daemon that owns the shared memory
// of a host and hands it to the workers that produce and consume result
// partitions, and the operator's view of it.
//
//	shuffled serve       run the daemon
//	shuffled list        show the partitions of a running daemon
//	shuffled inspect ID  show one partition and its subpartitions
//	shuffled clients     show the clients of a running daemon
//	shuffled release ID  release a partition, whatever holds it
//	shuffled kick N      end the connection of a client
//	shuffled check       try what serve needs of this host
//	shuffled version     print the version
//	shuffled help        print this, or the help of a command
//
// The exit code is 0 for success, 1 if something went wrong, 2 for a command
// line or an environment that makes no sense, 3 if serve was stopped while
// partitions were not consumed.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"shuffled/internal/cli"
)

// version is set by the linker.
var version = "unknown"

// Exit codes.
const (
	exitOK      = 0
	exitError   = 1
	exitUsage   = 2
	exitDropped = 3 // serve stopped and dropped partitions
)

func main() { os.Exit(run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

// A process is what a command sees of its surroundings.
type process struct {
	environ []string
	stdout  io.Writer
	stderr  *logQueue
}

// command gives a command its settings, and what it does once they are read.
func (p process) command(c *cobra.Command, list settings, run func(args []string) error) *cobra.Command {
	list.addTo(c.Flags())
	c.SetUsageFunc(func(c *cobra.Command) error {
		w := c.OutOrStdout()
		fmt.Fprintf(w, "Usage: %s\n", c.UseLine())
		list.printHelp(w)
		if c.HasExample() {
			fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
		}
		return nil
	})
	c.RunE = func(_ *cobra.Command, args []string) error {
		if err := list.load(c.Flags(), p.environ); err != nil {
			return err
		}
		return run(args)
	}
	return c
}

// oneArgument refuses all but one argument that is not empty.
func oneArgument(missing string) cobra.PositionalArgs {
	return func(c *cobra.Command, args []string) error {
		if len(args) == 0 || args[0] == "" {
			return cli.Usagef("%s", missing)
		}
		return cli.NoArguments(c, args[1:])
	}
}

// Groups of commands in the help.
const (
	daemonGroup   = "daemon"
	operatorGroup = "operator"
)

// newProgram makes the command of the program, with all others.
func newProgram(p process) *cobra.Command {
	root := &cobra.Command{
		Use: "shuffled", Short: "Move records between processes through shared memory", Version: programVersion(),
		Long: `shuffled moves records between the processes of a host through shared memory.

Exit code: 0 success, 1 something went wrong, 2 the command line or the environment is wrong,
3 serve was stopped while partitions were not consumed.`,
	}
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	root.AddGroup(&cobra.Group{ID: daemonGroup, Title: "The daemon:"},
		&cobra.Group{ID: operatorGroup, Title: "What an operator asks of it:"})
	root.AddCommand(serveCommand(p), checkCommand(p), listCommand(p), inspectCommand(p), clientsCommand(p),
		releaseCommand(p), kickCommand(p))
	root.AddCommand(&cobra.Command{Use: "version", Short: "Print the version", Args: cli.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(p.stdout, programVersion())
			return err
		}})
	cli.Prepare(root)
	return root
}

// run runs a command and returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	queue := newLogQueue(stderr)
	defer queue.close()
	c, err := cli.Execute(context.Background(), newProgram(process{environ: environ, stdout: stdout, stderr: queue}),
		args)
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(queue, "%s: %s\n", c.CommandPath(), displayError(err))
	var usage *cli.UsageError
	var dropped *droppedError
	switch {
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &dropped):
		return exitDropped
	}
	return exitError
}
