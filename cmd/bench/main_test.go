package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/internal/test/leaktest"
)

// With this variable set, the test binary is the program itself. Its value is
// the fault that is to happen, if any.
const beProgram = "BENCH_TEST_FAULT"

func TestMain(m *testing.M) {
	if value, ok := os.LookupEnv(beProgram); ok {
		fault = bench.Fault(value)
		main()
	}
	leaktest.Main(m)
}

// words is a folder with known words.
const words = "../../bench/testdata/words"

// patience bounds how long a program may take that is expected to end.
const patience = time.Minute

// program returns the program as a process that has not been started. It finds
// no daemon program, so it uses the server within itself.
func program(ctx context.Context, t *testing.T, fault bench.Fault, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	command := exec.CommandContext(ctx, self, args...)
	command.Env = append(os.Environ(), beProgram+"="+string(fault), "PATH=", "TMPDIR="+t.TempDir(),
		"GOCOVERDIR="+t.TempDir(),
		"GORACE=atexit_sleep_ms=0") // the race detector has every process wait a second
	return command
}

// outcome is what a program did.
type outcome struct {
	code           int
	stdout, stderr string
}

// runProgram runs the program to its end.
func runProgram(t *testing.T, fault bench.Fault, args ...string) outcome {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := program(ctx, t, fault, args...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	err := command.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	require.NoError(t, ctx.Err(), "the program should have ended by itself, it said: %s%s", stdout.String(),
		stderr.String())
	return outcome{command.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

func TestWrongUsageExitsWith2AndSaysWhatWouldBeRight(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{nil, "Workloads:"},
		{[]string{"wordcout"}, `unknown command "wordcout": did you mean wordcount?`},
		{[]string{"xyzzy"}, `unknown command "xyzzy": want one of `},
		{[]string{"help", "xyzzy"}, `unknown command "xyzzy"`},
		{[]string{"version", "xyzzy"}, `unexpected argument "xyzzy"`},
		{[]string{"wordcount", "--prodcers", "3"}, `unknown flag "--prodcers": did you mean --producers?`},
		{[]string{"wordcount", "--xyzzy"}, `unknown flag "--xyzzy": want one of --consumers, --embedded`},
		{[]string{"wordcount", "--producers", "many"}, `invalid argument "many" for "--producers" flag`},
		{[]string{"wordcount", "--producers", "0"}, "--producers is 0, want 1 to 256"},
		{[]string{"wordcount", "--consumers", "257"}, "--consumers is 257, want 1 to 256"},
		{[]string{"wordcount", "--top", "-1"}, "--top is -1, want 0 or more"},
		{[]string{"wordcount", "--embedded", "--socket", "s"}, "leave out --socket, or --embedded"},
		{[]string{"wordcount", "words"}, `unexpected argument "words"`},
		{[]string{"throughput", "--size", "15"}, `--size: "15", want a number of bytes from 16 to`},
		{[]string{"throughput", "--size", "100,,200"}, `--size: "", want a number`},
		{[]string{"throughput", "--size", "100,100"}, "--size: 100 is given twice"},
		{[]string{"throughput", "--transports", "shm,udp"}, `transport "udp": want some of shm,ceiling,unix,tcp,pipe`},
		{[]string{"throughput", "--seconds", "0"}, "--seconds is 0, want more than 0"},
		{[]string{"throughput", "--seconds", "NaN"}, "--seconds is NaN, want more than 0"},
		{[]string{"throughput", "--rounds", "0"}, "--rounds is 0, want 1 to 1000"},
		{[]string{"throughput", "--producers", "-1"}, "--producers is -1"},
		{[]string{"throughput", "--partition-type", "blocking"},
			`--partition-type: partition type "blocking": want some of pipelined,pipelined-bounded`},
		{[]string{"throughput", "--flush-timeout", "0,-3ms"},
			`--flush-timeout: flush timeout "-3ms": want a duration such as 100ms`},
		{[]string{"throughput", "--via", "emit,emit"}, `--via: way "emit" is given twice`},
		{[]string{"throughput", "--consumers", "2", "--distribution", "random"},
			`--distribution: distribution "random": want some of keyed,round-robin`},
		{[]string{"throughput", "--distribution", "keyed"},
			"--distribution is for several consumers: give --consumers as well"},
		{[]string{"throughput", "--pin=2"}, `invalid argument "2" for "--pin" flag`},
		{[]string{"throughput", "--json"}, "flag needs an argument: --json"},
		{[]string{"fanout", "--subpartitions", "0"}, `--subpartitions: "0", want numbers from 1 to 4096`},
		{[]string{"fanout", "--subpartitions", "8,1000000"}, `--subpartitions: "1000000", want numbers from 1 to 4096`},
		{[]string{"fanout", "--subpartitions", "8,"}, `--subpartitions: "", want numbers`},
		{[]string{"fanout", "--subpartitions", "8,8"}, "--subpartitions: 8 is given twice"},
		{[]string{"fanout", "--size", "15"}, "--size is 15, want 16 to"},
		{[]string{"fanout", "--transports", "shm,tcp"},
			"--transports: tcp is not measured here, want shm, unix or both"},
		{[]string{"fanout", "--flush-timeout", "0,1s"}, `--flush-timeout: "0,1s", want a single one`},
		{[]string{"fanout", "--processes", "0"}, "--processes is 0, want 1 to 256"},
		{[]string{"fanout", "--seconds", "-1"}, "--seconds is -1, want more than 0"},
		{[]string{"scale", "--partitions", "0"}, `--partitions: "0", want numbers from 1 to 100000`},
		{[]string{"scale", "--partitions", "1000000"}, `--partitions: "1000000", want numbers from 1 to 100000`},
		{[]string{"scale", "--idle", "0s"}, "--idle is 0s, want more than 0s and at most 1h0m0s"},
		{[]string{"scale", "--idle", "2"}, `invalid argument "2" for "--idle" flag`},
		{[]string{"scale", "--rounds", "0"}, "--rounds is 0, want 1 to 1000"},
		{[]string{"latency", "--path", "both"}, `--path: path "both": want some of one-way,round-trip`},
		{[]string{"latency", "--transports", "ceiling"},
			`transport "ceiling": want some of shm,unix,tcp,pipe,futex,cache-line`},
		{[]string{"latency", "--waiting", "sitting"}, `--waiting: "sitting", want parked, spinning or both`},
		{[]string{"latency", "--rate", "0"},
			`--rate: rate "0": want records a second, more than 0 and at most 10000000`},
		{[]string{"latency", "--rate", "NaN"}, `rate "NaN": want records`},
		{[]string{"latency", "--rate", "10000001"}, `rate "10000001": want records`},
		{[]string{"latency", "--rate", "1e3,1000"}, `rate "1000" is given twice`},
		{[]string{"latency", "--rate", "1", "--seconds", "0.5"},
			"--rate: at 1 records a second none is due in 0.5 seconds"},
		{[]string{"latency", "--size", "8"}, `--size: "8", want a number of bytes from 16`},
		{[]string{"latency", "--flush-timeout", "-1"}, "--flush-timeout: want 0 to 1m0s"},
		{[]string{"latency", "--flush-timeout", "2m"}, "--flush-timeout: want 0 to 1m0s"},
		{[]string{"latency", "--seconds", "-1"}, "--seconds is -1, want more than 0"},
		{[]string{"latency", "--rounds", "1001"}, "--rounds is 1001, want 1 to 1000"},
		{[]string{"throughput", "--assert", "ratio_to_unx>=2"},
			`unknown figure "ratio_to_unx": did you mean ratio_to_unix?`},
		{[]string{"throughput", "--json", "same", "--benchfmt", "same"}, "--json and --benchfmt name the same file"},
		{[]string{"compare", "a.json"}, "1 file, want two that --json wrote"},
		{[]string{"compare", "a.json", "b.json", "--al"}, `unknown flag "--al": did you mean --all?`},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), row.args, &stdout, &stderr), "%q", row.args)
		require.Contains(t, stderr.String(), row.want, "%q", row.args)
		require.Empty(t, stdout.String(), "%q", row.args)
	}
}

func TestHelpGoesToStandardOutput(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"help"}, "throughput  "},
		{[]string{"--help"}, "throughput  "},
		{[]string{"help", "wordcount"}, "--producers"},
		{[]string{"wordcount", "--help"}, "A word is"},
		{[]string{"throughput", "-h"}, "--transports"},
		{[]string{"help", "fanout"}, "--subpartitions"},
		{[]string{"help", "scale"}, "--partitions"},
		{[]string{"help", "latency"}, "saturated"},
		{[]string{"help", "compare"}, "--fail-on-worse"},
		{[]string{"version"}, version},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitOK, run(t.Context(), row.args, &stdout, &stderr), "%q", row.args)
		require.Contains(t, stdout.String(), row.want, "%q", row.args)
		require.Empty(t, stderr.String(), "%q", row.args)
		require.NotContains(t, stdout.String(), "bench "+workerCommand, "the hidden subcommand")
	}
}

func TestFailuresExitWith1AndSayWhatToDo(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"wordcount", "--embedded", "--input", missing}, "give a folder or file with --input"},
		{[]string{"wordcount", "--input", words, "--socket", missing}, "is the daemon running"},
		{[]string{"throughput", "--seconds", "0.01", "--transports", "shm", "--socket", missing},
			"is the daemon running"},
		{[]string{"throughput", "--json", filepath.Join(missing, "report.json")},
			"give a file in a folder that exists with --json"},
		{[]string{"throughput", "--transports", "ceiling", "--size", "40000"}, "choose others with --transports"},
		{[]string{"throughput", "--transports", "pipe", "--seconds", "0.01", "--rounds", "1", "--assert", "p99_ns<1s"},
			"1 of 1 assertions failed"},
		{[]string{"latency", "--path", "round-trip", "--transports", "futex", "--waiting", "spinning"},
			"choose others with --transports, --path or --waiting"},
		{[]string{"latency", "--transports", "futex", "--hdr", "main_test.go/hdr"}, "create folder of histograms"},
		{[]string{"latency", "--transports", "shm", "--seconds", "0.01", "--socket", missing}, "is the daemon running"},
		{[]string{"compare", missing, missing}, "no such file"},
	} {
		got := runProgram(t, bench.NoFault, row.args...)
		require.Equal(t, exitFailed, got.code, "%q", row.args)
		require.Contains(t, got.stderr, row.want, "%q", row.args)
	}
}
