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
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
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
	args    []string // after the command
	environ []string
	stdout  io.Writer
	stderr  *logQueue
}

// A command is a subcommand of this program.
type command struct {
	name, usage, summary string
	run                  func(process) error
	// help prints what the command does and takes.
	help func(io.Writer)
}

func commands() []command {
	return []command{
		{"serve", "serve [flags]", "run the daemon", runServe, helpServe},
		{"list", "list [flags]", "show the partitions of a running daemon", runList, helpList},
		{"inspect", "inspect ID|NAME [flags]", "show one partition and its subpartitions", runInspect, helpInspect},
		{"clients", "clients [flags]", "show the clients of a running daemon", runClients, helpClients},
		{"release", "release ID|NAME [flags]", "release a partition, whatever holds it", runRelease, helpRelease},
		{"kick", "kick CLIENT [flags]", "end the connection of a client", runKick, helpKick},
		{"check", "check [flags]", "try what serve needs of this host, and exit", runCheck, helpCheck},
		{"version", "version", "print the version", runVersion, nil},
		{"help", "help [command]", "print this, or the help of a command", runHelp, nil},
	}
}

// run runs a command and returns the exit code.
func run(args, environ []string, stdout, stderr io.Writer) int {
	queue := newLogQueue(stderr)
	defer queue.close()
	return runCommand(args, environ, stdout, queue)
}

func runCommand(args, environ []string, stdout io.Writer, stderr *logQueue) int {
	if len(args) == 0 {
		printUsage(stderr)
		return exitUsage
	}
	name := args[0]
	switch name {
	case "-h", "-help", "--help":
		name = "help"
	case "-v", "-version", "--version":
		name = "version"
	}
	for _, c := range commands() {
		if c.name == name {
			err := c.run(process{args: args[1:], environ: environ, stdout: stdout, stderr: stderr})
			return report(c, err, stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "shuffled: %v\n", unknownCommand(name))
	return exitUsage
}

// report prints the error of a command, if there is one, and returns the exit
// code for it.
func report(c command, err error, stdout, stderr io.Writer) int {
	var dropped *droppedError
	switch usage := (*usageError)(nil); {
	case err == nil:
		return exitOK
	case errors.Is(err, errHelpWanted):
		c.help(stdout)
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "shuffled %s: %s\n", c.name, displayError(err))
		if c.help != nil {
			fmt.Fprintf(stderr, "run 'shuffled %s -help' for its flags\n", c.name)
		}
		return exitUsage
	}
	fmt.Fprintf(stderr, "shuffled %s: %s\n", c.name, displayError(err))
	if errors.As(err, &dropped) {
		return exitDropped
	}
	return exitError
}

// A usageError is one of the command line or the environment.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// errHelpWanted is returned for a command line that asks for help.
var errHelpWanted = errors.New("help wanted")

func unknownCommand(name string) error {
	var names []string
	for _, c := range commands() {
		names = append(names, c.name)
	}
	return usagef("unknown command %q%s; want %s", name, didYouMean(name, names, ""), strings.Join(names, ", "))
}

func printUsage(w io.Writer) {
	fmt.Fprint(w, "shuffled moves records between the processes of a host through shared memory.\n\nUsage:\n\n")
	for _, c := range commands() {
		fmt.Fprintf(w, "  shuffled %-24s %s\n", c.usage, c.summary)
	}
	fmt.Fprint(w, "\nA flag may be written -flag or --flag, its value behind a space or an equals sign.\n"+
		"Exit code: 0 success, 1 something went wrong, 2 the command line or the environment is wrong,\n"+
		"3 serve was stopped while partitions were not consumed.\n")
}

func runHelp(p process) error {
	if len(p.args) == 0 {
		printUsage(p.stdout)
		return nil
	}
	for _, c := range commands() {
		if c.name != p.args[0] {
			continue
		}
		if c.help == nil {
			printUsage(p.stdout)
		} else {
			c.help(p.stdout)
		}
		return nil
	}
	return unknownCommand(p.args[0])
}

func runVersion(p process) error {
	if len(p.args) > 0 {
		return usagef("got argument %q, want none", p.args[0])
	}
	_, err := fmt.Fprintln(p.stdout, programVersion())
	return err
}
