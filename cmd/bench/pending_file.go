package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// A pendingFile is one that a run is to write: it has its name once all of it is
// written, so that whoever reads it never sees a part, and what was there before
// stays if the run fails.
type pendingFile struct {
	path      string
	temporary *os.File
}

// createPending finds out before the time is spent that a file cannot be written.
// Call discard in the end, whatever happened. The error names the flag that the
// path is from.
func createPending(path, flag string) (*pendingFile, error) {
	if info, err := os.Lstat(path); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("create results: %s is no regular file: give a new name or a file to replace with --%s",
			path, flag)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("create results: %w: give a file in a folder that exists with --%s", err, flag)
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), ".bench-*")
	if err != nil {
		return nil, fmt.Errorf("create results: %w: give a file in a folder that exists with --%s", err, flag)
	}
	return &pendingFile{path, temporary}, nil
}

// commit writes the file and gives it its name.
func (p *pendingFile) commit(write func(io.Writer) error) error {
	err := errors.Join(write(p.temporary), p.temporary.Chmod(0o644), p.temporary.Close())
	if err == nil {
		err = os.Rename(p.temporary.Name(), p.path)
	}
	if err != nil {
		return fmt.Errorf("write results to %s: %w", p.path, err)
	}
	return nil
}

// discard removes what was not committed.
func (p *pendingFile) discard() {
	_ = p.temporary.Close()
	_ = os.Remove(p.temporary.Name()) // it has another name if it was committed
}
