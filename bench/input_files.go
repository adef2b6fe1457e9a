package bench

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// An InputFile is a text to count.
type InputFile struct {
	Path string
	Size int64
}

// ListInput returns the regular files below root, or root itself if it is one,
// in the order of their paths. Symbolic links below root are not followed.
func ListInput(root string) ([]InputFile, error) {
	resolved, err := filepath.EvalSymlinks(root)
	if err != nil {
		return nil, fmt.Errorf("list input: %w: does it exist? give a folder or file with --input", err)
	}
	var files []InputFile
	err = filepath.WalkDir(resolved, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		files = append(files, InputFile{Path: path, Size: info.Size()})
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list input: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("list input: no regular file in %s: give a folder or file with --input", root)
	}
	return files, nil
}

// DealFiles divides files over n readers so that each gets about as many bytes:
// the largest first, each to the reader that has least. It gives the same
// division for the same files.
func DealFiles(files []InputFile, n int) [][]InputFile {
	bySize := slices.SortedStableFunc(slices.Values(files), func(a, b InputFile) int {
		return int(min(max(b.Size-a.Size, -1), 1))
	})
	hands, sizes := make([][]InputFile, n), make([]int64, n)
	for _, file := range bySize {
		least := 0
		for i := range sizes {
			if sizes[i] < sizes[least] {
				least = i
			}
		}
		hands[least] = append(hands[least], file)
		sizes[least] += file.Size
	}
	return hands
}

// inputSize returns how many bytes the files have.
func inputSize(files []InputFile) (total int64) {
	for _, file := range files {
		total += file.Size
	}
	return total
}

// eachWord calls f with every word of the files until it returns an error. The
// word is valid during the call.
func eachWord(files []InputFile, f func(word []byte, bytesRead int64) error) (bytesRead int64, err error) {
	words := NewWordReader(strings.NewReader(""))
	for _, input := range files {
		if err := wordsOfFile(words, input.Path, f); err != nil {
			return words.BytesRead(), err
		}
	}
	return words.BytesRead(), nil
}

func wordsOfFile(words *WordReader, path string, f func([]byte, int64) error) error {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read input: %w", err)
	}
	defer file.Close()
	words.Reset(file)
	for {
		word, err := words.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read input: %w", err)
		}
		if err := f(word, words.BytesRead()); err != nil {
			return err
		}
	}
}

// DefaultInput returns the source tree of the Go installation: text that every
// machine with Go has.
func DefaultInput() (string, error) {
	root := os.Getenv("GOROOT")
	if root == "" {
		out, err := exec.Command("go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("find the Go source tree, which is counted by default: go env GOROOT: %w: give a folder with --input", err)
		}
		root = strings.TrimSpace(string(out))
	}
	source := filepath.Join(root, "src")
	if _, err := os.Stat(source); err != nil {
		return "", fmt.Errorf("find the Go source tree, which is counted by default: %w: give a folder with --input",
			err)
	}
	return source, nil
}
