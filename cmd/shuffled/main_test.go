package main

import (
	"bytes"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/internal/test/leaktest"
)

// asProgram makes this test binary behave as the program that it tests. It must
// not begin with SHUFFLED_: the program refuses names that it does not know.
const asProgram = "TEST_AS_SHUFFLED=1"

func TestMain(m *testing.M) {
	if os.Getenv("TEST_AS_SHUFFLED") == "1" {
		if procs := os.Getenv("TEST_CGROUP_PROCS"); procs != "" {
			if err := os.WriteFile(procs, []byte("0"), 0); err != nil { // this process
				panic(err)
			}
		}
		if n, err := strconv.ParseUint(os.Getenv("TEST_NOFILE"), 10, 64); err == nil {
			if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n / 2, Max: n}); err != nil {
				panic(err)
			}
		}
		if uid, err := strconv.Atoi(os.Getenv("TEST_UID")); err == nil {
			if err := syscall.Setuid(uid); err != nil {
				panic(err)
			}
		}
		if os.Getenv("TEST_NOHUP") == "1" {
			signal.Ignore(syscall.SIGHUP)
		}
		restrict()
		main()
	}
	if address := os.Getenv("TEST_FLOOD"); address != "" {
		floodHTTP(address)
	}
	if side := os.Getenv("TEST_WORKER"); side != "" {
		restrict()
		if err := runWorker(side); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(exitError)
		}
		os.Exit(exitOK)
	}
	leaktest.Main(m)
}

// runProgram runs a command in this process.
func runProgram(environ []string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, environ, &out, &errs)
	return code, out.String(), errs.String()
}

func TestUsageIsPrintedWithoutACommand(t *testing.T) {
	code, stdout, stderr := runProgram(nil)
	require.Equal(t, exitUsage, code)
	require.Empty(t, stdout)
	require.Contains(t, stderr, "Run the daemon")
}

func TestHelpIsPrintedWhenAskedFor(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"help"}, "Show one partition"},
		{[]string{"--help"}, "Show one partition"},
		{[]string{"-h"}, "Show one partition"},
		{[]string{"help", "serve"}, "SHUFFLED_SEGMENT_SIZE"},
		{[]string{"serve", "--help"}, "SHUFFLED_SEGMENT_SIZE"},
		{[]string{"serve", "--memory", "1GiB", "--help"}, "SHUFFLED_SEGMENT_SIZE"},
		{[]string{"list", "-h"}, "Usage: shuffled list"},
		{[]string{"inspect", "-h"}, "Usage: shuffled inspect ID"},
		{[]string{"help", "version"}, "shuffled version"},
	} {
		code, stdout, stderr := runProgram(nil, row.args...)
		require.Equal(t, exitOK, code, row.args)
		require.Contains(t, stdout, row.want, row.args)
		require.Empty(t, stderr, row.args)
	}
}

func TestVersionIsPrinted(t *testing.T) {
	for _, arg := range []string{"version", "--version", "-v"} {
		code, stdout, stderr := runProgram(nil, arg)
		require.Equal(t, exitOK, code, arg)
		require.Equal(t, programVersion()+"\n", stdout, arg)
		require.Empty(t, stderr, arg)
	}
}

func TestUnknownCommandsAreUsageErrors(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"sevre"}, `unknown command "sevre": did you mean serve?`},
		{[]string{"frobnicate"}, `unknown command "frobnicate": want one of check, clients`},
		{[]string{"help", "lst"}, "did you mean list?"},
		{[]string{"version", "now"}, `unexpected argument "now"`},
	} {
		code, stdout, stderr := runProgram(nil, row.args...)
		require.Equal(t, exitUsage, code, row.args)
		require.Empty(t, stdout, row.args)
		require.Contains(t, stderr, row.want, row.args)
	}
}
