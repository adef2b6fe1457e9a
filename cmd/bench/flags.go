package main

import (
	"fmt"
	"io"
	"os"

	"shuffled/bench"
	"shuffled/internal/cli"
)

// checkCount refuses numbers out of a flag's range.
func checkCount(flag string, value, most int) error {
	if value < 1 || value > most {
		return cli.Usagef("--%s is %d, want 1 to %d", flag, value, most)
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
