package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"shuffled/bench/results"
)

// outputs is where the results of a workload go besides the table on standard
// output.
type outputs struct{ json string }

func (o *outputs) addFlags(flags *flag.FlagSet) {
	flags.StringVar(&o.json, "json", "", "`file` to write the results to, with every round and the machine")
}

// keep runs a workload and writes what it measured. If the workload fails after
// some rounds, it keeps those, marked as partial, and returns the error. A file
// that cannot be written is found before the time is spent.
func (o *outputs) keep(stdout io.Writer, run func() (*results.File, error)) error {
	var file *os.File
	if o.json != "" {
		var err error
		if file, err = os.CreateTemp(filepath.Dir(o.json), ".bench-*.json"); err != nil {
			return fmt.Errorf("create results: %w: give a file in a folder that exists with -json", err)
		}
		defer func() {
			_ = file.Close()
			_ = os.Remove(file.Name()) // it has another name if all went well
		}()
	}
	measured, err := run()
	if measured == nil {
		return err
	}
	return errors.Join(err, o.write(measured, file, stdout))
}

func (o *outputs) write(measured *results.File, file *os.File, stdout io.Writer) error {
	fmt.Fprintln(stdout)
	if err := measured.WriteTable(stdout); err != nil {
		return err
	}
	if measured.Partial != "" {
		fmt.Fprintf(stdout, "partial: %s\n", measured.Partial)
	}
	if file == nil {
		return nil
	}
	if err := errors.Join(measured.WriteJSON(file), file.Chmod(0o644), file.Close()); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.Rename(file.Name(), o.json); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	fmt.Fprintf(stdout, "results: %s\n", o.json)
	return nil
}
