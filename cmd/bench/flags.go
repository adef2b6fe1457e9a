package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"shuffled/bench"
)

// A usageError is a mistake on the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usagef(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// errHelp is returned by parse once it has printed the help.
var errHelp = errors.New("help was printed")

// parse reads the flags of a subcommand, which takes nothing else. Asked for
// help, it writes the text and the flags to stdout and returns errHelp.
func parse(flags *flag.FlagSet, args []string, stdout io.Writer, text string) error {
	if err := parseFlags(flags, args, stdout, text); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return usagef("unexpected argument %q, it takes flags only: see bench help %s", flags.Arg(0), flags.Name())
	}
	return nil
}

// parseWithFiles is parse for a subcommand that takes files too, before flags and
// after them.
func parseWithFiles(flags *flag.FlagSet, args []string, stdout io.Writer, text string) (files []string, err error) {
	for {
		if err := parseFlags(flags, args, stdout, text); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return files, nil
		}
		files, args = append(files, flags.Arg(0)), flags.Args()[1:]
	}
}

func parseFlags(flags *flag.FlagSet, args []string, stdout io.Writer, text string) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	const undefined = "flag provided but not defined: -"
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, text)
		flags.SetOutput(stdout)
		flags.PrintDefaults()
		return errHelp
	case err != nil && strings.HasPrefix(err.Error(), undefined):
		var names []string
		flags.VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
		return unknown("flag", "-"+strings.TrimPrefix(err.Error(), undefined), names)
	case err != nil:
		return usagef("%v: see bench help %s", err, flags.Name())
	}
	return nil
}

// unknown is the error for a name that is none of some, with the one that was
// probably meant.
func unknown(kind, name string, names []string) error {
	slices.Sort(names)
	nearest := slices.MinFunc(names, func(a, b string) int { return editDistance(name, a) - editDistance(name, b) })
	if editDistance(name, nearest) <= 2 {
		return usagef("unknown %s %q: did you mean %s?", kind, name, nearest)
	}
	return usagef("unknown %s %q: want one of %s", kind, name, strings.Join(names, ", "))
}

// editDistance is how many letters must be added, removed or changed.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

// given reports whether a flag is on the command line.
func given(flags *flag.FlagSet, name string) (found bool) {
	flags.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// checkCount refuses numbers out of a flag's range.
func checkCount(flag string, value, most int) error {
	if value < 1 || value > most {
		return usagef("-%s is %d, want 1 to %d", flag, value, most)
	}
	return nil
}

// launcher starts this program as a worker.
func launcher(stderr io.Writer) (bench.Launcher, error) {
	self, err := os.Executable()
	if err != nil {
		return bench.Launcher{}, fmt.Errorf("find this program, to start workers: %w", err)
	}
	return bench.Launcher{Path: self, Args: []string{workerCommand}, Stderr: stderr}, nil
}
