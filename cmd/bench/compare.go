package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"shuffled/bench/results"
	"shuffled/internal/cli"
	"shuffled/internal/units"
)

const compareHelp = `Compares the results of two runs of one workload, as --json writes them, and says
what got better or worse from A to B. Measurements with the same settings are
compared by their rates, latencies, processor time, memory and ratios to other
transports.

Each figure has its median over the rounds and, in brackets, the interval in which
the median lies with a probability of 95 %. A difference counts if chance alone
makes one as great in 1 of 20 cases (Mann-Whitney U test, both sides): so of 20
figures that are the same, one is called better or worse. It takes 4 rounds of each
file to tell a difference, and 6 for the interval.

Machines and their load change: ratios say more than rates. Between machines that
differ, only ratios are judged.

`

func compare(stdout io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use: "compare A.json B.json", Short: "Compare the results of two runs", Long: compareHelp, GroupID: resultGroup,
		Example: "  bench compare --fail-on-worse before.json after.json",
	}
	all := c.Flags().Bool("all", false, "compare every metric that both files have, not only the principal ones")
	failOnWorse := c.Flags().Bool("fail-on-worse", false, "exit with 1 if any figure is worse in B")
	c.RunE = func(_ *cobra.Command, paths []string) error { return compareFiles(paths, *all, *failOnWorse, stdout) }
	return c
}

func compareFiles(paths []string, all, failOnWorse bool, stdout io.Writer) (err error) {
	if len(paths) != 2 {
		return cli.Usagef("%s, want two that --json wrote: bench compare A.json B.json",
			units.Plural(len(paths), "file"))
	}
	var files [2]*results.File
	for i, path := range paths {
		if files[i], err = results.Read(path); err != nil {
			return err
		}
		describe(stdout, "AB"[i:i+1], path, files[i])
	}
	comparison, err := results.Compare(files[0], files[1], all)
	if err != nil {
		return err
	}
	if err := comparison.WriteTable(stdout); err != nil {
		return err
	}
	worse := comparison.Count(results.Worse)
	switch {
	case len(comparison.Rows) == 0:
		return errors.New("nothing to compare: no figure is in both files with the same settings")
	case failOnWorse && worse > 0:
		return fmt.Errorf("%d of %d figures are worse", worse, len(comparison.Rows))
	}
	return nil
}

// describe writes a line on a file.
func describe(out io.Writer, name, path string, f *results.File) {
	fmt.Fprintf(out, "%s: %s: %s", name, path, f.Workload)
	if !f.Started.IsZero() {
		fmt.Fprintf(out, " of %s", f.Started.Format(time.DateTime))
	}
	fmt.Fprintf(out, ", %s", f.Machine.Go)
	if f.Partial != "" {
		fmt.Fprintf(out, ", partial: %s", f.Partial)
	}
	fmt.Fprintln(out)
}
