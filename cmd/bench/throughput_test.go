package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/results"
	"shuffled/internal/daemon"
)

func TestThroughputMeasuresEveryTransportAndWritesTheReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.NoFault, "throughput", "--size", "16,100", "--seconds", "0.02", "--rounds", "2",
		"--json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "daemon: a server within this process\n")
	require.Contains(t, got.stdout,
		"plan: 1 producer and 1 consumer, a process each; 2 rounds of 20ms for each of 10 combinations")
	require.Equal(t, 20, strings.Count(got.stdout, "\nround "))

	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var report results.File
	require.NoError(t, json.Unmarshal(b, &report))
	require.NotEmpty(t, report.Machine.Kernel)
	require.Len(t, report.Results, 10)
	for i, m := range report.Results {
		require.Equal(t, string(bench.Transports[i%5]), m.Transport)
		require.Equal(t, []int{16, 100}[i/5], m.RecordSize)
		require.Len(t, m.Rounds, 2)
		for _, round := range m.Rounds {
			require.Positive(t, round[results.RecordsPerS])
			require.InEpsilon(t, round[results.RecordsPerS]*float64(m.RecordSize), round[results.BytesPerS], 1e-9)
		}
		require.InEpsilon(t, (m.Rounds[0][results.RecordsPerS]+m.Rounds[1][results.RecordsPerS])/2, m.MedianRecordsPerS,
			1e-9)
		require.Positive(t, m.RatioToCeiling)
		require.Positive(t, m.RatioToUnix)
	}
	left, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, left, 1, "no temporary file")
}

func TestThroughputOfSeveralWorkersLeavesTheCeilingOut(t *testing.T) {
	got := runProgram(t, bench.NoFault, "throughput", "--producers", "2", "--consumers", "3", "--seconds", "0.02",
		"--rounds", "1")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "left out: ceiling with 100 bytes: it has one producer and one consumer")
	for _, transport := range []string{"shm", "unix", "tcp", "pipe"} {
		require.Regexp(t, `round 1: +100 B +`+transport+` `, got.stdout)
	}
}

// readReport reads what --json wrote.
func readReport(t *testing.T, path string) (report results.File) {
	t.Helper()
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, &report))
	return report
}

func TestThroughputHasARowForEachCombinationOfSettings(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.NoFault, "throughput", "--transports", "shm,unix,grpc", "--partition-type",
		"pipelined,pipelined-bounded",
		"--flush-timeout", "5ms,0,-1", "--via", "emit,reserve", "--seconds", "0.02", "--rounds", "1", "--json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `round 1: +100 B +shm pipelined flush 0 reserve `, got.stdout)
	var rows []string
	for _, m := range readReport(t, path).Results {
		rows = append(rows, strings.Join([]string{m.Transport, m.PartitionType, m.FlushTimeout, m.Via}, " "))
		require.Empty(t, m.Distribution)
		require.Empty(t, m.Pinned)
		require.Positive(t, m.RatioToUnix, rows)
		require.Contains(t, m.Medians, results.AllocsPerRecord)
		require.Positive(t, m.Medians[results.CostPerRecord])
	}
	require.Equal(t, []string{
		"shm pipelined 5ms emit", "shm pipelined 5ms reserve", "shm pipelined 0 emit", "shm pipelined 0 reserve",
		"shm pipelined -1 emit", "shm pipelined -1 reserve",
		"shm pipelined-bounded 5ms emit", "shm pipelined-bounded 5ms reserve", "shm pipelined-bounded 0 emit",
		"shm pipelined-bounded 0 reserve",
		"shm pipelined-bounded -1 emit", "shm pipelined-bounded -1 reserve",
		"unix   ", "grpc   ",
	}, rows)
}

func TestThroughputOfBothDistributionsOnEveryTransport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.NoFault, "throughput", "--transports", "shm,unix,tcp,pipe,grpc", "--distribution",
		"keyed,round-robin",
		"--via", "emit,reserve", "--producers", "2", "--consumers", "3", "--seconds", "0.02", "--rounds", "1", "--json",
		path)
	require.Equal(t, exitOK, got.code, got.stderr)
	rows := make(map[string]int)
	for _, m := range readReport(t, path).Results {
		rows[m.Transport+" "+m.Distribution]++
		require.Positive(t, m.RatioToUnix)
	}
	require.Equal(t, map[string]int{
		"shm keyed": 2, "unix keyed": 1, "tcp keyed": 1, "pipe keyed": 1, "grpc keyed": 1,
		"shm round-robin": 2, "unix round-robin": 1, "tcp round-robin": 1, "pipe round-robin": 1, "grpc round-robin": 1,
	}, rows)
}

func TestThroughputOfWorkersThatArePinned(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("this machine has one core")
	}
	path := filepath.Join(t.TempDir(), "report.json")
	got := runProgram(t, bench.NoFault, "throughput", "--pin", "--transports", "shm,ceiling,grpc", "--seconds", "0.02",
		"--rounds", "1", "--json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `pinned: each worker to one core, in turn of \d+(, \d+)+, producers first\n`, got.stdout)
	for _, m := range readReport(t, path).Results {
		require.Equal(t, "on", m.Pinned)
		require.Positive(t, m.RatioToCeiling)
	}
}

func TestThroughputNoticesAFlippedByteOnEveryTransport(t *testing.T) {
	for _, transport := range bench.Transports {
		got := runProgram(t, bench.FlipByte, "throughput", "--transports", string(transport), "--seconds", "0.1",
			"--rounds", "1")
		require.Equal(t, exitFailed, got.code, "%s: %s", transport, got.stdout)
		require.Contains(t, got.stderr, "bench throughput: "+string(transport)+
			", 100 bytes, round 1: consumer 0: record 1000, number 1000 of producer 0: byte 99 of 100 is ")
	}
	got := runProgram(t, bench.FlipByte, "throughput", "--transports", "shm", "--via", "reserve", "--seconds", "0.1")
	require.Equal(t, exitFailed, got.code, got.stdout)
	require.Contains(t, got.stderr, "consumer 0: record 1000, number 1000 of producer 0: byte 99 of 100 is ")
	for _, transport := range []string{"shm", "unix", "grpc"} {
		for _, distribution := range []string{"keyed", "round-robin"} {
			got := runProgram(t, bench.FlipByte, "throughput", "--transports", transport, "--distribution",
				distribution,
				"--producers", "2", "--consumers", "2", "--seconds", "0.1")
			require.Equal(t, exitFailed, got.code, "%s %s: %s", transport, distribution, got.stdout)
			require.Regexp(t, `consumer [01]: record \d+, number 1000 of producer 0: byte 99 of 100 is `, got.stderr,
				"%s %s", transport, distribution)
		}
	}
}

func TestThroughputKeepsTheRoundsBeforeAWorkerDied(t *testing.T) {
	for _, transport := range bench.Transports {
		for fault, want := range map[bench.Fault]string{
			bench.DieProducing: `, 100 bytes, round 2: producer 0: process \d+ ended without a result: signal: killed`,
			bench.DieConsuming: `, 100 bytes, round 2: consumer 0: process \d+ ended without a result: signal: killed`,
		} {
			path := filepath.Join(t.TempDir(), "report.json")
			got := runProgram(t, fault.InRound(2), "throughput", "--transports", string(transport), "--seconds", "0.05",
				"--rounds", "3", "--json", path)
			require.Equal(t, exitFailed, got.code, "%s %s: %s", transport, fault, got.stdout)
			require.Regexp(t, want, got.stderr, "%s %s", transport, fault)
			require.Contains(t, got.stdout, "\npartial: "+string(transport)+", 100 bytes, round 2: ")
			report := readReport(t, path)
			require.Regexp(t, want, report.Partial)
			require.Len(t, report.Results, 1)
			require.Len(t, report.Results[0].Rounds, 1)
			require.Positive(t, report.Results[0].MedianRecordsPerS)
		}
	}
}

func TestThroughputKeepsTheRoundsBeforeTheDaemonWentAway(t *testing.T) {
	dir := t.TempDir()
	socket, path := filepath.Join(dir, "s"), filepath.Join(dir, "report.json")
	stop := serveDaemon(t, socket)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	command := program(ctx, t, bench.NoFault, "throughput", "--socket", socket, "--transports", "shm", "--seconds",
		"0.2", "--rounds", "1000", "--json", path)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	text := ""
	for lines := bufio.NewScanner(stdout); lines.Scan(); text += lines.Text() + "\n" {
		if strings.HasPrefix(lines.Text(), "round 1: ") {
			stop()
		}
	}
	var exit *exec.ExitError
	require.ErrorAs(t, command.Wait(), &exit)
	require.NoError(t, ctx.Err(), text)
	require.Equal(t, exitFailed, exit.ExitCode(), text)
	require.Contains(t, text, "daemon: the one at "+socket)
	require.Regexp(t, `bench throughput: shm, 100 bytes, round \d+: `, stderr.String())
	report := readReport(t, path)
	require.NotEmpty(t, report.Partial)
	require.Len(t, report.Results, 1)
	require.Len(t, report.Results[0].Rounds, strings.Count(text, "\nround "), "the complete rounds")
}

// serveDaemon serves at a socket until stop, at the latest until the test ends.
func serveDaemon(t *testing.T, socket string) (stop func()) {
	t.Helper()
	server, err := daemon.NewServer(daemon.Config{Memory: 64 << 20})
	require.NoError(t, err)
	listener, err := net.Listen("unixpacket", socket)
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	stop = sync.OnceFunc(func() {
		cancel()
		<-served
		_ = server.Close() // what it says does not matter to its clients
	})
	t.Cleanup(stop)
	return stop
}

func TestThroughputEndsWhenAWorkerDies(t *testing.T) {
	for _, transport := range bench.Transports {
		for fault, want := range map[bench.Fault]string{
			bench.DieProducing: `round 1: producer 0: process \d+ ended without a result: signal: killed\n`,
			bench.DieConsuming: `round 1: consumer 0: process \d+ ended without a result: signal: killed\n`,
		} {
			got := runProgram(t, fault, "throughput", "--transports", string(transport), "--seconds", "5", "--rounds",
				"1")
			require.Equal(t, exitFailed, got.code, "%s %s: %s", transport, fault, got.stdout)
			require.Regexp(t, want, got.stderr, "%s %s", transport, fault)
		}
	}
}
