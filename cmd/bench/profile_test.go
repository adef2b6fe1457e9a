package main

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"shuffled/bench"
	"shuffled/bench/profile"
	"shuffled/bench/results"
	"shuffled/internal/bpf"
)

// requireBPF skips where programs cannot be loaded into the kernel.
func requireBPF(t *testing.T) {
	t.Helper()
	p, err := profile.New(profile.Options{}, false)
	require.NoError(t, err)
	p.Close()
	if why := p.Unsupported(); why != "" {
		t.Skip(why)
	}
}

func readResults(t *testing.T, path string) *results.File {
	t.Helper()
	f, err := results.Read(path)
	require.NoError(t, err)
	return f
}

func TestWrongUsageOfTheProfilerExitsWith2(t *testing.T) {
	for _, row := range []struct {
		args []string
		want string
	}{
		{[]string{"profile"},
			"nothing to profile: give --pid, or one of the workloads fanout, latency, scale, throughput, wordcount"},
		{[]string{"profile", "--", "throughputs"}, `unknown workload "throughputs": did you mean throughput?`},
		{[]string{"profile", "compare"}, `unknown workload "compare": want one of`},
		{[]string{"profile", "--no-overhed", "--", "throughput"},
			`unknown flag "--no-overhed": did you mean --no-overhead?`},
		{[]string{"profile", "--", "throughput", "--rounds", "0"}, "--rounds is 0, want 1 to 1000"},
		{[]string{"profile", "--for", "1s", "--", "throughput"}, "--for is for the processes of --pid"},
		{[]string{"profile", "--json", "a", "--", "throughput", "--json", "b"}, "--json is given twice"},
		{[]string{"profile", "--", "wordcount", "--embedded"}, "with --embedded, wordcount has no processes"},
		{[]string{"profile", "--pid", "1", "--", "throughput"}, "leave out the workload"},
		{[]string{"profile", "--pid", "1", "--no-overhead"}, "leave out the workload and --no-overhead"},
		{[]string{"profile", "--pid", "1", "--for", "0s"}, "--for is 0s, want more than 0 and at most 1h0m0s"},
		{[]string{"profile", "--pid", "1", "--for", "1h1s"}, "--for is 1h0m1s, want more than 0"},
		{[]string{"profile", "--pid", "1", "--for", "soon"}, `invalid argument "soon" for "--for" flag`},
		{[]string{"profile", "--pid", "x"}, `--pid: "x": want the number of a process`},
		{[]string{"profile", "--pid", "0"}, `--pid: "0": want the number`},
		{[]string{"profile", "--pid", "4294967297"}, `want the number of a process`},
		{[]string{"profile", "--pid", "1,"}, `--pid: "": want the number`},
		{[]string{"profile", "--pid", "king=1"}, `--pid: "king=1": want producer=, consumer= or daemon=`},
		{[]string{"profile", "--pid", "1,producer=1"}, "--pid: process 1 is given twice"},
		{[]string{"profile", "--pid", "1,producer=2,consumer=3,daemon=4"}, "give all of them one"},
		{[]string{"audit", "--transports", "udp"}, `--transports: transport "udp"`},
		{[]string{"audit", "--max-copied", "-1"}, "--max-copied is -1, want 0 or more"},
		{[]string{"audit", "--max-syscalls", "NaN"}, "--max-syscalls is NaN, want 0 or more"},
		{[]string{"audit", "--seconds", "0"}, "--seconds is 0, want more than 0"},
		{[]string{"audit", "--size", "1"}, `--size: "1", want a number of bytes`},
		{[]string{"audit", "shm"}, `unexpected argument "shm"`},
	} {
		var stdout, stderr bytes.Buffer
		require.Equal(t, exitUsage, run(t.Context(), row.args, &stdout, &stderr), "%q", row.args)
		require.Contains(t, stderr.String(), row.want, "%q", row.args)
		require.Empty(t, stdout.String(), "%q", row.args)
	}
}

func TestAProcessThatDoesNotExistExitsWith1(t *testing.T) {
	var stdout, stderr bytes.Buffer
	require.Equal(t, exitFailed, run(t.Context(), []string{"profile", "--no-bpf", "--pid", "1073741824"}, &stdout,
		&stderr))
	require.Contains(t, stderr.String(), "bench profile: there is no process 1073741824")
}

// startCat starts a process that has nothing to do until end is called.
func startCat(t *testing.T) (pid string, end func()) {
	t.Helper()
	command := exec.Command("cat")
	stdin, err := command.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	end = sync.OnceFunc(func() {
		_ = stdin.Close()
		_ = command.Wait()
	})
	t.Cleanup(end)
	return strconv.Itoa(command.Process.Pid), end
}

// firstWrite calls then at the first write, when the processes are watched.
type firstWrite struct {
	bytes.Buffer
	then func()
}

func (w *firstWrite) Write(p []byte) (int, error) {
	w.then()
	return w.Buffer.Write(p)
}

func TestProfileOfProcessesGoesOnWhenOneOfThemEnds(t *testing.T) {
	for _, row := range []struct {
		name   string
		flags  []string
		source results.ProfileSource
	}{{"proc", []string{"--no-bpf"}, results.FromProc}, {"ebpf", nil, results.FromBPF}} {
		t.Run(row.name, func(t *testing.T) {
			if row.source == results.FromBPF {
				requireBPF(t)
			}
			first, end := startCat(t)
			second, _ := startCat(t)
			path := filepath.Join(t.TempDir(), "results.json")
			stdout, stderr := firstWrite{then: end}, bytes.Buffer{}
			args := append([]string{"profile", "--pid", "producer=" + first + "," + second, "--for", "0.3s", "--json",
				path}, row.flags...)
			require.Equal(t, exitOK, run(t.Context(), args, &stdout, &stderr), stderr.String())
			require.Regexp(t, `(?m)^producer `+first+` ended after \d\.\d s$`, stdout.String())
			require.Regexp(t, `(?m)^per second +producer +worker$`, stdout.String())
			p := readResults(t, path).Results[0].Profile
			require.Equal(t, row.source, p.Source)
			require.Contains(t, p.Role("producer").Figures, results.PageFaults)
			require.Contains(t, p.Role("worker").Figures, results.CopiedFromUser)
		})
	}
}

func TestAnInterruptedProfileShowsWhatWasSeen(t *testing.T) {
	pid, _ := startCat(t)
	ctx, cancel := context.WithCancel(t.Context())
	stdout, stderr := firstWrite{then: cancel}, bytes.Buffer{}
	require.Equal(t, exitFailed, run(ctx, []string{"profile", "--no-bpf", "--pid", pid}, &stdout, &stderr))
	require.Contains(t, stderr.String(), "bench profile: stopped")
	require.Contains(t, stdout.String(), "read from /proc")
}

func TestProfileWithoutBPFMarksWhatIsNotMeasured(t *testing.T) {
	path := filepath.Join(t.TempDir(), "results.json")
	got := runProgram(t, bench.NoFault, "profile", "--no-bpf", "--", "throughput", "--transports", "shm,unix",
		"--seconds", "0.2", "--rounds", "2", "--json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stderr, "without eBPF, figures come from /proc, which has fewer: eBPF was not wanted")
	require.Regexp(t, `(?m)^system calls +not measured +not measured( +not measured)?$`, got.stdout)
	require.Regexp(t, `(?m)^copied from user memory, bytes per byte +1\.[01]\d +\d`, got.stdout)
	f := readResults(t, path)
	require.Len(t, f.Results, 2, "reading /proc costs nothing to be compared with")
	for _, m := range f.Results {
		require.Len(t, m.Rounds, 2)
		require.NotContains(t, m.Medians, results.SystemCallsPerMiB)
		require.NotContains(t, m.Medians, results.WakeupsPerMiB)
		require.NotContains(t, m.Profile.Role("producer").Figures, results.SystemCalls)
		require.Contains(t, m.Profile.Role("producer").Figures, results.VoluntarySwitches)
	}
	requireCopies(t, f)
}

// requireCopies checks that bytes go into the kernel and out of it through a
// socket, and not at all through the shuffle. Each record has a length before it. What
// a round says and writes beside its records is more of them the slower the machine is.
func requireCopies(t *testing.T, f *results.File) {
	t.Helper()
	copied := make(map[string]float64)
	for _, m := range f.Results {
		if v, ok := m.Medians[results.CopiedPerByte]; ok {
			copied[m.Transport] = v
		}
	}
	require.Less(t, copied["shm"], 0.2)
	require.Greater(t, copied["unix"], 2.07)
	require.Less(t, copied["unix"], 2.3)
}

func TestProfileComparesRoundsWithAndWithoutProbes(t *testing.T) {
	requireBPF(t)
	path := filepath.Join(t.TempDir(), "results.json")
	got := runProgram(t, bench.NoFault, "profile", "--json", path, "--", "throughput", "--transports", "shm,unix",
		"--seconds", "0.2", "--rounds", "2")
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "4 rounds of 200ms for each of 2 combinations")
	require.Regexp(t, `(?m)^records/s: .*probes.* with them, .* without$`, got.stdout)
	require.Regexp(t, `(?m)^cpu-s/GiB: .*probes.* with them, .* without$`, got.stdout)
	require.Regexp(t, `(?m)^  write +[\d,]+\.?\d* `, got.stdout, "a system call by name")
	f := readResults(t, path)
	require.Len(t, f.Results, 4)
	for i, m := range f.Results {
		require.Equal(t, []string{"off", "on"}[i%2], m.Probes)
		require.Len(t, m.Rounds, 2)
		require.Equal(t, m.Probes == "on", m.Profile != nil)
	}
	requireCopies(t, f)
	unix := f.Results[3].Profile
	require.Positive(t, unix.Role("producer").Figures[results.SystemCalls.Part("write")])
	require.Greater(t, unix.Role("consumer").Figures[results.InBytes.Part("unix stream")], float64(unix.PayloadBytes))
	require.Positive(t, unix.Overheads[0].With)
	require.NotNil(t, f.Results[1].Profile.Role("daemon"), "of shm")
}

func TestProfileTimesBuffersOnTheirWay(t *testing.T) {
	requireBPF(t)
	path := filepath.Join(t.TempDir(), "results.json")
	got := runProgram(t, bench.NoFault, "profile", "--handoff", "--no-overhead", "--json", path, "--", "throughput",
		"--transports", "shm", "--seconds", "0.2", "--rounds", "1")
	require.Equal(t, exitOK, got.code, got.stderr)
	f := readResults(t, path)
	require.Len(t, f.Results, 1)
	p := f.Results[0].Profile
	for _, missing := range p.Missing {
		if missing.What == bpf.PartHandoff {
			t.Skip(missing.Why)
		}
	}
	require.Contains(t, got.stdout, "\nway of every 64th buffer from producer to consumer: 50 % in ")
	require.Positive(t, p.Handoff.Buffers)
	require.Less(t, p.Handoff.Bytes, float64(p.PayloadBytes), "of some buffers only")
	require.Positive(t, p.Handoff.Latency.Count())
}

func TestProfileOfWordcountHasItsOutputToo(t *testing.T) {
	got := runProgram(t, bench.NoFault, "profile", "--no-bpf", "--", "wordcount", "--input", words)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, verified)
	require.Regexp(t, `(?m)^page faults +\d`, got.stdout)
}

func TestAuditSetsTheShuffleBesideSockets(t *testing.T) {
	requireBPF(t)
	path := filepath.Join(t.TempDir(), "results.json")
	got := runProgram(t, bench.NoFault, "audit", "--transports", "shm,unix", "--seconds", "0.2", "--rounds", "1",
		"--max-syscalls", "1e6", "--max-copied", "0.2", "--json", path)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Regexp(t, `(?m)^shm, 100 bytes: bytes copied by the kernel per byte of records: .*, at most 0.200: pass$`,
		got.stdout)
	require.Regexp(t, `(?m)^unix, 100 B: producer calls .*write [\d,.]+`, got.stdout)
	f := readResults(t, path)
	require.Equal(t, "audit", f.Workload)
	requireCopies(t, f)
	require.Greater(t, f.Results[1].Medians[results.SystemCallsPerMiB], 30.0, "a write for each 32 KiB")
	for _, m := range f.Results {
		require.Contains(t, m.Medians, results.WakeupsPerMiB)
	}
}

func TestAuditFailsAboveALimit(t *testing.T) {
	got := runProgram(t, bench.NoFault, "audit", "--no-bpf", "--transports", "shm", "--seconds", "0.02", "--rounds",
		"1", "--max-copied", "0")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stdout, "more than 0: FAIL")
	require.Contains(t, got.stderr, "bench audit: shm is above --max-copied")
}

func TestAuditWithoutBPFChecksWhatItCan(t *testing.T) {
	args := []string{"audit", "--no-bpf", "--transports", "shm", "--seconds", "0.02", "--rounds", "1", "--max-copied",
		"1"}
	got := runProgram(t, bench.NoFault, args...)
	require.Equal(t, exitOK, got.code, got.stderr)
	require.Contains(t, got.stdout, "system calls per MiB of records: not measured\n")

	got = runProgram(t, bench.NoFault, append(args, "--max-wakeups", "1")...)
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "not measured, so that --max-wakeups cannot be checked")
}

func TestObservedRoundsThatFailAreReported(t *testing.T) {
	got := runProgram(t, bench.DieConsuming, "profile", "--no-bpf", "--", "throughput", "--transports", "unix",
		"--seconds", "5", "--rounds", "1")
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "ended without a result: signal: killed")
}
