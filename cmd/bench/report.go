package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"shuffled/bench/page"
	"shuffled/bench/results"
	"shuffled/internal/cli"
	"shuffled/internal/units"
)

const reportHelp = `Makes one HTML page of files that --json wrote: what they have in figures, plots
and tables, and the machine they are of. The page needs no network and no scripts,
so that it can be sent around. Files of several workloads go into one page. Only
figures of one file compare, so files are kept apart.

`

// standardOutput is the name of no file.
const standardOutput = "-"

func report(stdout io.Writer) *cobra.Command {
	c := &cobra.Command{
		Use: "report FILE...", Short: "Make an HTML page of results", Long: reportHelp, GroupID: resultGroup,
		Example: "  bench report throughput.json latency.json -o report.html",
	}
	output := c.Flags().StringP("output", "o", "report.html",
		"`file` to write the page to, "+standardOutput+" for standard output")
	c.RunE = func(_ *cobra.Command, paths []string) error { return reportFiles(paths, *output, stdout) }
	return c
}

func reportFiles(paths []string, output string, stdout io.Writer) error {
	if len(paths) == 0 {
		return cli.Usagef("no files, want some that --json wrote: bench report throughput.json latency.json -o report.html")
	}
	if output == "" {
		return cli.Usagef("--output has no name, want a file, or %s for standard output", standardOutput)
	}
	sources, err := readSources(paths, output)
	if err != nil {
		return err
	}
	write := func(w io.Writer) error { return page.Write(w, sources) }
	if output == standardOutput {
		return write(stdout)
	}
	pending, err := createPending(output, "output")
	if err != nil {
		return err
	}
	defer pending.discard()
	if err := pending.commit(write); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "report: %s, of %s\n", output, units.Plural(len(paths), "file"))
	return nil
}

// readSources reads result files. None of them may be another one, or the output.
func readSources(paths []string, output string) ([]page.Source, error) {
	var sources []page.Source
	infos := make([]os.FileInfo, len(paths))
	names := make(map[string]int)
	for i, path := range paths {
		file, err := results.Read(path)
		if err != nil {
			return nil, err
		}
		if infos[i], err = os.Stat(path); err != nil {
			return nil, fmt.Errorf("read results: %w", err)
		}
		for j := range i {
			if os.SameFile(infos[i], infos[j]) {
				return nil, cli.Usagef("%s and %s are the same file, name each once", paths[j], path)
			}
		}
		if info, err := os.Stat(output); err == nil && os.SameFile(info, infos[i]) {
			return nil, cli.Usagef("--output %s would replace %s, which it is to be made of: give another name", output,
				path)
		}
		names[filepath.Base(path)]++
		sources = append(sources, page.Source{Name: path, File: file})
	}
	// Folders say nothing to readers elsewhere, unless files differ in them only.
	for i := range sources {
		if name := filepath.Base(paths[i]); names[name] == 1 {
			sources[i].Name = name
		}
	}
	return sources, nil
}
