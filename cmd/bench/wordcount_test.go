package main

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"shuffled/bench"
)

const verified = "verified: 13 words, 10 distinct, identical to the single-process count\n"

func TestWordCountOfProcessesIsIdentical(t *testing.T) {
	for _, workers := range [][2]string{{"1", "1"}, {"2", "3"}, {"5", "1"}} {
		got := runProgram(t, bench.NoFault, "wordcount", "--input", words, "--producers", workers[0], "--consumers",
			workers[1])
		require.Equal(t, exitOK, got.code, got.stderr)
		require.Contains(t, got.stdout, "daemon: a server within this process\n")
		require.Contains(t, got.stdout, "top words:\n  3  the\n")
		require.True(t, strings.HasSuffix(got.stdout, verified), got.stdout)
	}
}

func TestEmbeddedWordCountIsIdentical(t *testing.T) {
	got := runProgram(t, bench.NoFault, "wordcount", "--input", words, "--embedded", "--top", "0")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.True(t, strings.HasSuffix(got.stdout, verified), got.stdout)
	require.NotContains(t, got.stdout, "top words")
}

func TestMiscountExitsWith1AndNamesTheWord(t *testing.T) {
	got := runProgram(t, bench.Miscount, "wordcount", "--input", words, "--consumers", "1")
	require.Equal(t, exitFailed, got.code)
	require.Regexp(t, `differs: \S+: \d, single process \d\n$`, got.stdout)
	require.Contains(t, got.stderr, "counts differ")
}

// manyWords writes a file with more words than go into the shuffle at a time.
func manyWords(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	text := strings.Repeat("some words that are many and fill all segments\n", 400_000)
	require.NoError(t, os.WriteFile(filepath.Join(folder, "text"), []byte(text), 0o644))
	return folder
}

func TestDeathOfAWorkerEndsTheRunWithItsName(t *testing.T) {
	folder := manyWords(t)
	for fault, want := range map[bench.Fault]string{
		bench.DieProducing:  `producer 0: process \d+ ended without a result: signal: killed\n`,
		bench.DieConsuming:  `consumer 0: process \d+ ended without a result: signal: killed\n`,
		bench.FailProducing: `producer 0: told to fail\n`,
	} {
		got := runProgram(t, fault, "wordcount", "--input", folder, "--consumers", "1")
		require.Equal(t, exitFailed, got.code, "%s: %s", fault, got.stdout)
		require.Regexp(t, want, got.stderr)
		require.NotContains(t, got.stdout, "verified")
	}
}

// endlessFolder returns one with a file that never ends, so that workers work
// until they are stopped.
func endlessFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "text"), []byte("word "), 0o644))
	require.NoError(t, os.Truncate(filepath.Join(folder, "text"), 1<<42))
	return folder
}

func TestInterruptEndsAllWorkers(t *testing.T) {
	for _, signal := range []syscall.Signal{unix.SIGINT, unix.SIGTERM} {
		ended, stderr := stopProgram(t, signal)
		require.Equal(t, exitFailed, ended.ExitCode())
		require.Contains(t, stderr, "bench wordcount: stopped: "+signal.String()+" signal received")
	}
}

func TestWorkersEndWithTheProgram(t *testing.T) {
	ended, _ := stopProgram(t, unix.SIGKILL)
	require.Equal(t, -1, ended.ExitCode())
}

// stopProgram signals a program whose workers are busy, and returns when it and
// they have ended: the pipe that all of them inherited is closed then.
func stopProgram(t *testing.T, signal syscall.Signal) (ended *os.ProcessState, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := program(ctx, t, bench.NoFault, "wordcount", "--input", endlessFolder(t))
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	command.Stderr = w
	require.NoError(t, command.Start())
	require.NoError(t, w.Close())
	require.NoError(t, r.SetReadDeadline(time.Now().Add(patience)))
	lines := bufio.NewScanner(r)
	require.True(t, lines.Scan(), "a line of progress")
	require.Contains(t, lines.Text(), "read ")
	require.NoError(t, command.Process.Signal(signal))
	for lines.Scan() {
		stderr += lines.Text() + "\n"
	}
	require.NoError(t, lines.Err(), "workers went on")
	_ = command.Wait() // its exit status is what is returned
	return command.ProcessState, stderr
}
