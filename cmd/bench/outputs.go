package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"shuffled/bench/results"
	"shuffled/internal/cli"
)

// outputs is where the results of a workload go besides the table on standard
// output, and what they must be.
type outputs struct {
	json, benchfmt string
	assertions     []assertion
}

func (o *outputs) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.json, "json", "", "`file` to write the results to, with every round and the machine")
	flags.StringVar(&o.benchfmt, "benchfmt", "",
		"`file` to write every round to in the Go benchmark format, for benchstat")
	flags.Func("assert", "`condition` on a median or ratio, or exit with 1: 'ratio_to_unix>=2', 'p99_ns<200us', or\n"+
		"'transport=unix,record_size=100: records_per_s>=1e6' for some of the measurements only; those of\n"+
		"shm by default. One that is not measured fails. May be given several times", func(text string) error {
		a, err := parseAssertion(text)
		o.assertions = append(o.assertions, a)
		return err
	})
}

// files are those that were asked for, by flag.
func (o *outputs) files() (list []outputFile) {
	for _, file := range []outputFile{
		{"json", o.json, (*results.File).WriteJSON},
		{"benchfmt", o.benchfmt, (*results.File).WriteGoBenchmark},
	} {
		if file.path != "" {
			list = append(list, file)
		}
	}
	return list
}

type outputFile struct {
	flag, path string
	write      func(*results.File, io.Writer) error
}

// keep runs a workload, writes what it measured, and checks the assertions. If
// the workload fails after some rounds, it keeps those, marked as partial, and
// returns the error. A file that cannot be written is found before the time is
// spent.
func (o *outputs) keep(stdout io.Writer, run func() (*results.File, error)) error {
	files := o.files()
	pending := make([]*pendingFile, len(files))
	for i, file := range files {
		if i > 0 && file.path == files[0].path {
			return cli.Usagef("--%s and --%s name the same file", files[0].flag, file.flag)
		}
		var err error
		if pending[i], err = createPending(file.path, file.flag); err != nil {
			return err
		}
		defer pending[i].discard()
	}
	measured, err := run()
	if measured == nil {
		return err
	}
	fmt.Fprintln(stdout)
	if tableErr := measured.WriteTable(stdout); tableErr != nil {
		return errors.Join(err, tableErr)
	}
	if measured.Partial != "" {
		fmt.Fprintf(stdout, "partial: %s\n", measured.Partial)
	}
	for i, file := range files {
		if writeErr := pending[i].commit(func(w io.Writer) error { return file.write(measured, w) }); writeErr != nil {
			err = errors.Join(err, writeErr)
			continue
		}
		fmt.Fprintf(stdout, "results: %s\n", file.path)
	}
	return errors.Join(err, o.check(measured, stdout))
}

// check checks all assertions.
func (o *outputs) check(measured *results.File, stdout io.Writer) error {
	failed := 0
	for _, a := range o.assertions {
		if !a.check(measured, stdout) {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d assertions failed", failed, len(o.assertions))
	}
	return nil
}
